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

double crossover_tokens(const MemoryCost& one, const MemoryCost& other) {
  const double ahead = one.fixed - other.fixed, gained = other.per_token - one.per_token;
  if (std::isnan(ahead) || std::isnan(gained)) return std::numeric_limits<double>::quiet_NaN();
  if (gained > 0.0) return std::max(0.0, ahead / gained);
  return gained == 0.0 && ahead < 0.0 ? 0.0 : INFINITY;
}

}  // namespace afterglow
