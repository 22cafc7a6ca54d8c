// The phase map: a number over two settings as colours, a dot for each run that is finished, and the training of one.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/observation/phase_map_view.h"
#include "views/figures/selection.h"
#include "views/figures/training/curve_store.h"

namespace afterglow {

std::string phase_map_subtitle(const Observation& observation, const Selection& selection);
/// The map, and how its best run was trained and what came of it. Empty before there is a map.
std::vector<Figure> phase_map_figures(const Observation& observation, const Selection& selection, CurveStore& curves);

/// The dot of the run at this place is called "run 37"; -1 for every other name.
std::int64_t run_of_point(const std::string& id);
/// The row of the finished run whose cell covers this place of the map; nothing where there is none.
std::optional<std::size_t> run_at(const PhaseMapView& map, double x, double y);
/// How the run in this row was trained, without curves where it is not finished; and, where its model has one, the
/// eigenvalues of the head with the slowest mode at the end.
std::vector<Figure> phase_run_figures(const PhaseMapView& map, std::size_t row);

}  // namespace afterglow
