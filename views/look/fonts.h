// The fonts of the window: found on this machine at run time, baked at the sizes in use.
#pragma once
#include <imgui.h>

#include <filesystem>
#include <optional>
#include <vector>

#include "core/figure/canvas.h"

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

}  // namespace afterglow
