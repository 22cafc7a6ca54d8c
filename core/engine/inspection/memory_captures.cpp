// Tokens and pooling weights.
#include "core/engine/inspection/memory_captures.h"

#include <algorithm>

namespace afterglow {

void read_memory_captures(const CaptureReader& read, MemoryView& view) {
  const std::vector<double>& tokens = read.values("memory.tokens");
  view.token_values.assign(tokens.begin(), tokens.end());
  const std::vector<double>& weights = read.values("memory.pooling");
  if (weights.empty()) return;
  const auto length = static_cast<std::size_t>(read.shape("memory.pooling").last()),
             sequences = weights.size() / length;
  view.pooling.assign(std::min(length, static_cast<std::size_t>(std::max(0, view.input_length))), 0.0);
  for (std::size_t s = 0; s < sequences; ++s) {
    for (std::size_t t = 0; t < view.pooling.size(); ++t)
      view.pooling[t] += weights[s * length + t] / static_cast<double>(sequences);
  }
}

}  // namespace afterglow
