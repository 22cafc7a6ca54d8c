// The share of right answers over the number of bindings and the length: plain values with the step of the weights.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace afterglow {

/// Sequences of one length with one number of bindings.
struct AccuracyCell {
  int bindings = 1, length = 64;
  bool fits = true;                                            ///< false: so many bindings do not fit into the length
  std::int64_t examples = 0;                                   ///< sequences evaluated so far
  std::int64_t asked = 0, right = 0;                           ///< answers in them
  double accuracy = std::numeric_limits<double>::quiet_NaN();  ///< share of right answers; NaN before the first
};

/// One task: bindings x lengths cells, bindings outermost.
struct AccuracyGrid {
  std::string task;     ///< "sysprompt"
  std::string config;   ///< its configuration as JSON text, without a cell's bindings and length
  bool is_own = false;  ///< the model is trained on this task
  std::vector<int> bindings, lengths;
  std::vector<AccuracyCell> cells;
};

struct AccuracyView {
  std::int64_t step = 0;
  int own_length = 0;         ///< of the training sequences
  std::int64_t examples = 0;  ///< of each cell when complete
  std::vector<AccuracyGrid> grids;
  int measured = 0, planned = 0;  ///< complete cells, and all valid cells
  bool is_complete = false;
};

}  // namespace afterglow
