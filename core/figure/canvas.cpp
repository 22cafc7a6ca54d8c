// What every canvas shares: dash lengths and text widths from the built-in table.
#include "core/figure/canvas.h"

#include <array>

namespace afterglow {

std::span<const double> dash_pattern(Dash dash) {
  static constexpr std::array<double, 2> dashed = {3.2, 1.8}, dotted = {1.1, 1.7}, longer = {6.5, 2},
                                         shorter = {2, 1.4};
  static constexpr std::array<double, 4> dash_dot = {4.5, 1.7, 1.1, 1.7};
  switch (dash) {
    case Dash::dashed:
      return dashed;
    case Dash::dotted:
      return dotted;
    case Dash::dash_dot:
      return dash_dot;
    case Dash::long_dash:
      return longer;
    case Dash::short_dash:
      return shorter;
    case Dash::automatic:
    case Dash::solid:
      break;
  }
  return {};
}

double Canvas::text_width(std::string_view utf8, double size, FontFace face) const {
  return text_width_of(utf8, size, face);
}

}  // namespace afterglow
