// Themes, series colours with dashes and markers as a second cue, and the colour maps of heat maps.
#pragma once
#include <array>
#include <cstdint>

#include "core/figure/figure.h"

namespace afterglow {

/// sRGB with alpha.
struct Color {
  std::uint8_t r = 0;
  std::uint8_t g = 0;
  std::uint8_t b = 0;
  std::uint8_t a = 255;
  bool operator==(const Color&) const = default;
};

constexpr Color rgb(std::uint32_t hex) {
  return {static_cast<std::uint8_t>(hex >> 16), static_cast<std::uint8_t>(hex >> 8), static_cast<std::uint8_t>(hex),
          255};
}

/// The same colour with its alpha multiplied by `alpha` in [0, 1].
Color faded(Color color, double alpha);

/// From `from` (t = 0) to `to` (t = 1), linear in OKLab, so that equal steps appear equal.
Color mixed(Color from, Color to, double t);

constexpr int palette_size = 6;

/// All colours. Figures never name a colour: they name a meaning (`Ink`), which the theme maps to a colour.
struct Theme {
  const char* name;
  bool is_dark;
  Color ground;    ///< behind the panels
  Color panel;     ///< behind a plot; white in files
  Color raised;    ///< fields, the empty end of a sequential colour map
  Color hairline;  ///< frames
  Color grid;      ///< grid lines, faint
  Color text;
  Color dim;      ///< tick labels, secondary text
  Color faint;    ///< axis titles, section heads
  Color accent;   ///< the action in progress
  Color warning;  ///< amber
  Color failure;  ///< red; nothing else is red
  std::array<Color, palette_size> series;
  double text_scale;  ///< 1; 1.6 on a projector
  double line_scale;  ///< 1; 1.5 on a projector, so that a curve is 3 px wide
};

const Theme& dark_theme();
const Theme& light_theme();      ///< also the theme of files: its panel is white
const Theme& projector_theme();  ///< light, high contrast, large

Color ink_color(const Theme& theme, Ink ink);

/// The second cues of a colour, never `automatic`: the dash and the marker of a palette index; plain for other roles.
Dash ink_dash(Ink ink);
Marker ink_marker(Ink ink);

/// Colour of `t` in [0, 1] (clamped). Sequential: from the empty ground upwards in contrast, strictly monotonic in
/// lightness. Diverging: neutral at 1/2, blue below, amber above, equal lightness steps on both sides.
Color map_color(const Theme& theme, ColourMap map, double t);

/// Colour of a cell that holds no finite number.
Color flaw_color(const Theme& theme);

}  // namespace afterglow
