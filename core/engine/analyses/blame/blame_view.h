// Which batches shaped a training: its results without each of them, as plain values.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/engine/observation/table_view.h"

namespace afterglow {

/// Some sequences of one batch, as their labels.
struct ShownBatch {
  std::int64_t step = -1;              ///< of the batch; -1: none is shown
  std::vector<std::string> sequences;  ///< the first few: "^ k17 v11 k1 v23 | k1"
};

struct BlameView {
  std::string name;                  ///< of the recipe
  std::int64_t first = 1, last = 0;  ///< steps whose batches are left out, one at a time
  std::int64_t until = 0;            ///< the step at which all runs are compared
  std::vector<RunMetric> metrics;    ///< what is measured there
  std::size_t shown = 0;             ///< index into `metrics`
  std::vector<double> whole;         ///< with every batch; empty: not measured yet
  std::vector<RunResult> without;    ///< `row` is the step of the batch that was left out; ascending
  std::vector<double> loss;          ///< of the training with every batch, steps first to until
  ShownBatch batch;
};

}  // namespace afterglow
