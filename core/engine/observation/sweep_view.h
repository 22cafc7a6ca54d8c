// A sweep as plain values for figures and files: fields of one recipe as axes, and the measurements at each grid point.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/engine/observation/table_view.h"

namespace afterglow {

/// One field of the recipe and the values that it takes.
struct SweepAxis {
  std::string field;                ///< "learning_rate", "layers.1.ska.ridge"
  std::vector<std::string> values;  ///< as after the equals sign of an assignment: "0.001", "mamba2"
  bool is_logarithmic = false;
};

/// An axis of repetitions: figures show their mean and spread.
constexpr const char* seed_field = "seed";

struct SweepView {
  std::string name;             ///< of the recipe: "tiny"
  std::vector<SweepAxis> axes;  ///< the last one varies fastest
  std::vector<RunMetric> metrics;
  std::vector<RunResult> results;  ///< of finished runs; `row` is the index in the grid
  std::string recipe;              ///< JSON of the varied recipe, for files
};

std::size_t size_of(const std::vector<SweepAxis>& axes);
/// The index on each axis of the run in this row.
std::vector<std::size_t> place_of(const std::vector<SweepAxis>& axes, std::size_t row);

/// The axes without that of the seeds.
std::vector<SweepAxis> shown_axes(const SweepView& sweep);
/// The same results with `row` counted without seeds, so that `summary_of` averages over the seeds.
std::vector<RunResult> by_shown_place(const SweepView& sweep);

}  // namespace afterglow
