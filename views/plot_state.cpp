// Arithmetic of the view: ranges in data units from gestures in canvas units.
#include "views/plot_state.h"

#include <algorithm>
#include <cmath>

namespace afterglow {

namespace {

bool is_usable(const Range& range, Scale scale) {
  if (!std::isfinite(range.low) || !std::isfinite(range.high) || !std::isfinite(range.high - range.low)) return false;
  if (scale == Scale::log && range.low <= 0) return false;
  return range.high - range.low > 1e-12 * std::max(std::abs(range.low), std::abs(range.high));
}

/// The data between two places on the axis, in ascending order.
void look_at(std::optional<Range>& shown, const AxisTransform& axis, double from, double to) {
  Range range{axis.to_data(from), axis.to_data(to)};
  if (range.high < range.low) std::swap(range.low, range.high);
  if (is_usable(range, axis.scale())) shown = range;
}

}  // namespace

void pan(PlotState& state, const FigureGeometry& geometry, double dx, double dy) {
  if (dx != 0) look_at(state.x, geometry.x, geometry.x.from() - dx, geometry.x.to() - dx);
  if (dy != 0) look_at(state.y, geometry.y, geometry.y.from() - dy, geometry.y.to() - dy);
}

void zoom_at(PlotState& state, const FigureGeometry& geometry, Point place, double factor, AxisChoice axes) {
  const auto zoom = [&](std::optional<Range>& shown, const AxisTransform& axis, double at) {
    look_at(shown, axis, at + (axis.from() - at) * factor, at + (axis.to() - at) * factor);
  };
  if (axes.x) zoom(state.x, geometry.x, place.x);
  if (axes.y) zoom(state.y, geometry.y, place.y);
}

void zoom_to_box(PlotState& state, const FigureGeometry& geometry, Point from, Point to) {
  constexpr double smallest = 5;
  if (std::abs(from.x - to.x) < smallest || std::abs(from.y - to.y) < smallest) return;
  look_at(state.x, geometry.x, from.x, to.x);
  look_at(state.y, geometry.y, from.y, to.y);
}

Scale next_scale(Scale scale) {
  return scale == Scale::linear ? Scale::log : scale == Scale::log ? Scale::symlog : Scale::linear;
}

void set_scale(PlotState& state, char axis, Scale scale) {
  (axis == 'x' ? state.x_scale : state.y_scale) = scale;
  (axis == 'x' ? state.x : state.y) = std::nullopt;
}

void place_cursor(PlotState& state, double x) {
  if (!std::isfinite(x)) return;
  if (!state.mark_a) {
    state.mark_a = x;
  } else if (!state.mark_b) {
    state.mark_b = x;
  } else {
    state.mark_a = state.mark_b = std::nullopt;
  }
}

void move_cursor(PlotState& state, char which, double x) {
  if (!std::isfinite(x)) return;
  (which == 'b' && state.mark_a ? state.mark_b : state.mark_a) = x;
}

char cursor_near(const PlotState& state, const FigureGeometry& geometry, double canvas_x, double reach) {
  const auto distance = [&](const std::optional<double>& mark) {
    return mark ? std::abs(geometry.x.to_canvas(*mark) - canvas_x) : INFINITY;
  };
  const double a = distance(state.mark_a), b = distance(state.mark_b);
  if (!(std::min(a, b) <= reach)) return 0;
  return a <= b ? 'a' : 'b';
}

FigureView view_of(const PlotState& state, double text_size) {
  FigureView view{.x = state.x};
  view.y = state.y;
  view.x_scale = state.x_scale;
  view.y_scale = state.y_scale;
  view.hidden.assign(state.hidden.begin(), state.hidden.end());
  view.mark_a = state.mark_a;
  view.mark_b = state.mark_b;
  view.colours = state.colours;
  view.text_size = text_size;
  return view;
}

}  // namespace afterglow
