// A sweep as plain values for figures and files: fields of one recipe as axes, and what was measured at each place.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/engine/observation/table_view.h"

namespace afterglow {

/// One field of the recipe and the values that it takes.
struct SweepAxis {
  std::string field;                ///< "learning_rate", "layers.1.ska.ridge"
  std::vector<std::string> values;  ///< as behind the equals sign of an assignment: "0.001", "mamba2"
  bool is_logarithmic = false;
};

/// An axis whose values are only repetitions: figures show their mean and spread.
constexpr const char* seed_field = "seed";

struct SweepView {
  std::string name;             ///< of the recipe: "tiny"
  std::vector<SweepAxis> axes;  ///< the last one varies fastest
  std::vector<RunMetric> metrics;
  std::vector<RunResult> results;  ///< of the runs that are finished, by their row: the place in the grid
  std::string recipe;              ///< JSON of the one that is varied, for files
};

std::size_t size_of(const std::vector<SweepAxis>& axes);
/// The index on each axis of the run in this row.
std::vector<std::size_t> place_of(const std::vector<SweepAxis>& axes, std::size_t row);

/// The axes without that of the seeds.
std::vector<SweepAxis> shown_axes(const SweepView& sweep);
/// The same results with the place among the shown axes as their row, so that `summary_of` sums the seeds up.
std::vector<RunResult> by_shown_place(const SweepView& sweep);

}  // namespace afterglow
