// Memory of fixed states and of caches, and where they cross.
#include "core/analysis/memory_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace afterglow {

MemoryCost memory_cost(const SkaMemory& ska) {
  const double numbers = 2 * ska.rank * ska.rank + ska.value_width * ska.rank + ska.rank + 1;
  return {numbers * ska.heads * ska.layers * ska.bytes_per_number, 0.0};
}

MemoryCost memory_cost(const AttentionMemory& attention) {
  const double numbers = (attention.key_width + attention.value_width) * attention.key_heads;
  return {0.0, numbers * attention.layers * attention.bytes_per_number};
}

MemoryCost memory_cost(const Mamba2Memory& mamba2) {
  const double convolved = mamba2.inner + 2 * mamba2.states;
  const double numbers = mamba2.inner * mamba2.states + (mamba2.convolution - 1) * convolved;
  return {numbers * mamba2.layers * mamba2.bytes_per_number, 0.0};
}

double crossover_tokens(const MemoryCost& one, const MemoryCost& other) {
  const double ahead = one.fixed - other.fixed, gained = other.per_token - one.per_token;
  if (std::isnan(ahead) || std::isnan(gained)) return std::numeric_limits<double>::quiet_NaN();
  if (gained > 0.0) return std::max(0.0, ahead / gained);
  return gained == 0.0 && ahead < 0.0 ? 0.0 : INFINITY;
}

}  // namespace afterglow
