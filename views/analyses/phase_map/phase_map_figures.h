// The phase map: a number over two settings as colours, a dot for each finished run, and the training of one.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/analyses/phase_map/phase_map_view.h"
#include "views/figures/plot_functions.h"

namespace afterglow {

SubtitleOfPlot phase_map_subtitle;
/// The map, and training and results of its best run. Empty before there is a map.
FiguresOfPlot phase_map_figures;

/// The row of the dot "run 37"; -1 for every other name.
std::int64_t run_of_point(const std::string& id);
/// The row of the finished run whose cell covers this place of the map; empty without one.
std::optional<std::size_t> run_at(const PhaseMapView& map, double x, double y);
/// The training of the run in this row, without curves while it is unfinished; and, if its model has one, the
/// eigenvalues of the head with the slowest mode after the last step.
std::vector<Figure> phase_run_figures(const PhaseMapView& map, std::size_t row);

}  // namespace afterglow
