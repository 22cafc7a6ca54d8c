// What token mixers cost over the length of their sequence, measured, as plain values for figures.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace afterglow {

/// One mixer; an entry of each list for each length. Of one sequence in float32 on one thread of the processor.
struct LayerCost {
  std::string name;  ///< "SKA, r 24, S 64"
  std::string kind;  ///< whose colour it has
  std::vector<double> tokens;
  std::vector<double> pass_ms;      ///< forward and reverse pass over the whole sequence
  std::vector<double> pass_bytes;   ///< what such a pass keeps on its tape, both ways
  std::vector<double> step_ms;      ///< one more token behind so many
  std::vector<double> state_bytes;  ///< what is carried from token to token behind so many
  /// As which power of T the first and the third grow by Echo's table 1.
  double pass_growth = 0, step_growth = 0;
};

struct CostView {
  std::int64_t width = 0;  ///< d
  std::vector<LayerCost> layers;
};

}  // namespace afterglow
