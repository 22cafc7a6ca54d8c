// The present appearance of the window: theme, scale and fonts, and the Dear ImGui style that follows from them.
#pragma once
#include <imgui.h>

#include <filesystem>
#include <optional>
#include <vector>

#include "core/figure/canvas.h"
#include "core/figure/palette.h"

namespace afterglow {

/// Folders that may hold fonts, nearest to the user first: XDG_DATA_HOME, ~/.fonts, XDG_DATA_DIRS.
std::vector<std::filesystem::path> font_folders();

/// Font files by face, and one that fills gaps in Greek, arrows and mathematics. A missing one falls back: Inter and
/// JetBrains Mono, then DejaVu, then the face built into Dear ImGui.
struct FontFiles {
  std::optional<std::filesystem::path> regular, semibold, mono, symbols;
};
/// Searches the folders and everything below them; skips unreadable ones.
FontFiles find_fonts(const std::vector<std::filesystem::path>& folders);

/// A font at the size nearest to the wanted one.
struct FontPick {
  ImFont* font = nullptr;
  float height = 0;    ///< line height to draw at, for the wanted em
  float baseline = 0;  ///< from the top of the line
};

class FontSet {
 public:
  /// Loads the files and fills the atlas. `scale` is window units per layout unit, `density` pixels per window unit.
  /// The set owns the files' bytes and must outlive the atlas; damaged files count as missing. Without the sizes of
  /// slides, which are large, the first picture is there sooner.
  void bake(ImFontAtlas& atlas, const FontFiles& files, float scale, float density = 1, bool has_slides = true);
  /// `size` is the em in window units.
  FontPick pick(FontFace face, double size) const;

 private:
  struct Baked {
    FontFace face;
    float em;            ///< pixels
    float height_of_em;  ///< line height / em
    ImFont* font;
  };
  float density_ = 1;
  std::vector<Baked> baked_;
  std::vector<std::vector<unsigned char>> bytes_;
};

inline ImU32 packed(Color c) { return IM_COL32(c.r, c.g, c.b, c.a); }

/// On the draw list of a Dear ImGui window: it draws figures and the page itself with the same strokes.
class FigureCanvas final : public Canvas {
 public:
  FigureCanvas(ImDrawList& list, const FontSet& fonts) : list_(&list), fonts_(&fonts) {}

  void polyline(std::span<const Point> points, const Stroke& stroke) override;
  void polygon(std::span<const Point> points, Color fill) override;
  void fill_rect(const Rect& rect, double corner_radius, Color fill) override;
  void stroke_rect(const Rect& rect, double corner_radius, const Stroke& stroke) override;
  void fill_circle(Point centre, double radius, Color fill) override;
  void stroke_circle(Point centre, double radius, const Stroke& stroke) override;
  void text(Point place, std::string_view utf8, const TextStyle& style) override;
  void push_clip(const Rect& rect) override;
  void pop_clip() override;
  void color_grid(const Rect& rect, int rows, int cols, std::span<const Color> cells) override;
  double text_width(std::string_view utf8, double size, FontFace face) const override;
  int grid_limit() const override { return 128; }

 private:
  void solid_line(std::span<const Point> points, float width, ImU32 color);
  void dashed_line(std::span<const Point> points, const Stroke& stroke);

  ImDrawList* list_;
  const FontSet* fonts_;
  std::vector<ImVec2> path_;  ///< reused for all strokes
};

struct Look {
  const Theme* theme = nullptr;
  float scale = 1;  ///< pixels per layout unit: content scale x zoom x the theme's text scale
  const FontSet* fonts = nullptr;

  double px(double units) const { return units * static_cast<double>(scale); }
  /// Text size for figures, which multiply by the theme's text scale themselves.
  double figure_text(double units) const { return px(units) / theme->text_scale; }
  FigureCanvas canvas() const { return FigureCanvas(*ImGui::GetWindowDrawList(), *fonts); }
};

/// dark, light or projector; dark for any other name.
const Theme& theme_named(std::string_view name);
/// The scale of everything for a screen's content scale and the user's zoom.
float look_scale(const Theme& theme, double content_scale, double zoom);
/// The scale at which the smallest text has a fortieth of a window's height, as an audience needs it.
float presenting_scale(double window_height);
/// Gives Dear ImGui's own widgets (text fields, scroll bars) the style of the page.
void apply_style(const Look& look);

}  // namespace afterglow
