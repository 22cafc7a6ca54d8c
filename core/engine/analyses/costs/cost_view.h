// Measured costs of token mixers over the sequence length, as plain values for figures.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace afterglow {

/// One mixer; lists have an entry for each length. One sequence in float32 on one CPU thread.
struct LayerCost {
  std::string name;  ///< "SKA, r 24, S 64"
  std::string kind;  ///< its colour's kind
  std::vector<double> tokens;
  std::vector<double> pass_ms;      ///< forward and backward pass over the whole sequence
  std::vector<double> pass_bytes;   ///< kept on the tape by such a pass
  std::vector<double> step_ms;      ///< one more token after a sequence of this length
  std::vector<double> state_bytes;  ///< state after a sequence of this length
  /// Exponents of T in the first and third list by Echo's table 1.
  double pass_growth = 0, step_growth = 0;
};

struct CostView {
  std::int64_t width = 0;  ///< d
  std::vector<LayerCost> layers;
};

}  // namespace afterglow
