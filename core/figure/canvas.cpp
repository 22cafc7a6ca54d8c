// Defaults for all canvases: dash lengths, texts in pieces, and text widths from the built-in table.
#include "core/figure/canvas.h"

#include <array>
#include <cmath>
#include <numbers>

namespace afterglow {

std::span<const double> dash_pattern(Dash dash) {
  static constexpr std::array<double, 2> dashed = {3.2, 1.8}, dotted = {1.1, 1.7}, longer = {6.5, 2},
                                         shorter = {2, 1.4};
  static constexpr std::array<double, 4> dash_dot = {4.5, 1.7, 1.1, 1.7};
  // In the order of `Dash`; an automatic dash was chosen before, else it is solid.
  static constexpr std::array<std::span<const double>, 7> patterns = {
      {{}, {}, dashed, dotted, dash_dot, longer, shorter}};
  return patterns[static_cast<std::size_t>(dash)];
}

void Canvas::text_runs(Point place, std::span<const TextRun> runs, double width, const TextStyle& style) {
  const double angle = style.rotation * std::numbers::pi / 180, c = std::cos(angle), s = std::sin(angle);
  TextStyle part = style;
  part.anchor = Anchor::start;
  for (const TextRun& run : runs) {
    const double along = run.x - shift_of(style.anchor, width);
    part.size = run.size;
    text({place.x + along * c - run.rise * s, place.y - along * s - run.rise * c}, run.text, part);
  }
}

double Canvas::text_width(std::string_view utf8, double size, FontFace face) const {
  return text_width_of(utf8, size, face);
}

}  // namespace afterglow
