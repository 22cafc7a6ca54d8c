// The present appearance of the window: theme, scale and fonts, and the Dear ImGui style that follows from them.
#pragma once
#include "core/figure/palette.h"
#include "views/look/figure_canvas.h"

namespace afterglow {

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
