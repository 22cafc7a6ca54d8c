// Indices in the grid of a sweep.
#include "core/engine/observation/sweep_view.h"

namespace afterglow {

std::size_t size_of(const std::vector<SweepAxis>& axes) {
  std::size_t size = 1;
  for (const SweepAxis& axis : axes) size *= axis.values.size();
  return size;
}

std::vector<std::size_t> place_of(const std::vector<SweepAxis>& axes, std::size_t row) {
  std::vector<std::size_t> place(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    place[i] = row % axes[i].values.size();
    row /= axes[i].values.size();
  }
  return place;
}

std::vector<SweepAxis> shown_axes(const SweepView& sweep) {
  std::vector<SweepAxis> shown = sweep.axes;
  std::erase_if(shown, [](const SweepAxis& axis) { return axis.field == seed_field; });
  return shown;
}

std::vector<RunResult> by_shown_place(const SweepView& sweep) {
  std::vector<RunResult> results = sweep.results;
  for (RunResult& result : results) {
    const std::vector<std::size_t> place = place_of(sweep.axes, result.row);
    result.row = 0;
    for (std::size_t i = 0; i < place.size(); ++i) {
      if (sweep.axes[i].field != seed_field) result.row = result.row * sweep.axes[i].values.size() + place[i];
    }
  }
  return results;
}

}  // namespace afterglow
