// How often a model answers rightly, over how much it has to remember and for how long. Plain values, stamped with the
// step of the weights.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace afterglow {

/// Sequences of one length with one number of bindings.
struct AccuracyCell {
  int bindings = 1, length = 64;
  bool fits = true;                   ///< false where so many bindings do not fit into the length
  std::int64_t examples = 0;          ///< sequences asked so far
  std::int64_t asked = 0, right = 0;  ///< answers in them
  double accuracy = std::numeric_limits<double>::quiet_NaN();  ///< share of right answers; NaN before the first
};

/// One task: cells bindings x lengths, bindings outermost.
struct AccuracyGrid {
  std::string task;     ///< "sysprompt"
  std::string config;   ///< its configuration as JSON text, without bindings and length of a cell
  bool is_own = false;  ///< the model is trained on it
  std::vector<int> bindings, lengths;
  std::vector<AccuracyCell> cells;
};

struct AccuracyView {
  std::int64_t step = 0;
  int own_length = 0;         ///< of the sequences of training
  std::int64_t examples = 0;  ///< of each cell in the end
  std::vector<AccuracyGrid> grids;
  int measured = 0, planned = 0;  ///< cells with all their examples, of all that fit
  bool is_complete = false;
};

}  // namespace afterglow
