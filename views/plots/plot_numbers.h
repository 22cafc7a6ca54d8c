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

/// The large number of a lesson's step, before and after what the step does.
struct LargeNumber {
  std::optional<double> before, now;

  /// Takes the present value; the one before is that without interventions, or the first one, or with `is_open`, while
  /// its question waits, the newest one.
  void take(const std::string& name, const Observation& observation, const Selection& selection, CurveStore& curves,
            bool is_open);
  /// "100 % → 61 %", one number where both are the same unless the step asked for it, "100 % → ?" with `is_open`, and
  /// "?" until it is measured. Shares are in percent.
  std::string words(const std::string& name, bool is_open, bool has_asked) const;
};

}  // namespace afterglow
