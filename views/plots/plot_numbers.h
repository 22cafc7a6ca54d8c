// The numbers of plots, under names: `training_loss.loss.last`. Lessons can expect any of them; `plot --json` prints
// them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/engine/observation/run_numbers.h"
#include "core/figure/figure.h"
#include "views/figures/selection.h"
#include "views/figures/training/curve_store.h"

namespace afterglow {

/// FIGURE.SERIES.STATISTIC of every curve, bar, dot and map: first, last, min, max, mean, count; of a dot x and y.
std::vector<NamedNumber> numbers_of(const Figure& figure);

/// The number with this name, of the run (run_numbers.h) or of a figure; of a curve also FIGURE.SERIES.at.X, the value
/// at the nearest x. Empty if there is no such number, or if it is not finite.
std::optional<Quantity> find_number(const std::string& name, const Observation& observation, const Selection& selection,
                                    CurveStore& curves);

/// All present names.
std::vector<NamedNumber> all_numbers(const Observation& observation, const Selection& selection, CurveStore& curves);

/// The analyses that the name needs.
AnalysisSet analyses_of_number(const std::string& name);

}  // namespace afterglow
