// Which batches made a training what it is, as plain values: what came of it without each of them.
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
  std::int64_t until = 0;            ///< the step at which all are compared
  std::vector<RunMetric> metrics;    ///< what is measured there
  std::size_t shown = 0;             ///< index into `metrics`
  std::vector<double> whole;         ///< measured with every batch; empty: not yet
  std::vector<RunResult> without;    ///< by `row`, the step of the batch that was left out; ascending
  std::vector<double> loss;          ///< of the training with every batch, steps first to until
  ShownBatch batch;
};

}  // namespace afterglow
