// The numbers that plots show, under names: `training_loss.loss.last`. A lesson may expect any of them, `plot --json`
// prints them.
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

/// What the name stands for, of the run (run_numbers.h) or of a figure; of a curve also FIGURE.SERIES.at.X, the value
/// at the nearest x. Nothing where there is no such number, or where it is not one.
std::optional<Quantity> find_number(const std::string& name, const Observation& observation, const Selection& selection,
                                    CurveStore& curves);

/// Everything that has a name now.
std::vector<NamedNumber> all_numbers(const Observation& observation, const Selection& selection, CurveStore& curves);

/// The analyses that have to be made for the name to stand for something.
AnalysisSet analyses_of_number(const std::string& name);

}  // namespace afterglow
