// What a decoding model must keep: the fixed states of SKA against a cache that grows (Echo 3.5, I.14).
#pragma once
#include <algorithm>
#include <cmath>

namespace afterglow {

/// Bytes of one sequence after T tokens: fixed + per_token T. Doubles, which hold whole numbers
/// exactly up to 2^53.
struct MemoryCost {
  double fixed = 0.0, per_token = 0.0;
  double at(double tokens) const { return fixed + per_token * tokens; }
};

/// G, M [r,r], C [P,r], the previous key [r] and the key scale of every head: 2 r^2 + P r + r + 1 numbers (section 3.5;
/// section 6.2 forgets the last). The paper's "77 KB" is one head in two layers at r = 56, P = 64 in fp32; its 12 heads
/// need 929 KiB.
struct SkaMemory {
  double rank = 0, value_width = 0, heads = 1, layers = 1, bytes_per_number = 4;
};
inline MemoryCost memory_cost(const SkaMemory& ska) {
  const double numbers = 2 * ska.rank * ska.rank + ska.value_width * ska.rank + ska.rank + 1;
  return {numbers * ska.heads * ska.layers * ska.bytes_per_number, 0.0};
}

/// A key and a value for every token and key head.
struct AttentionMemory {
  double key_width = 0, value_width = 0, key_heads = 1, layers = 1, bytes_per_number = 2;
};
inline MemoryCost memory_cost(const AttentionMemory& attention) {
  const double numbers = (attention.key_width + attention.value_width) * attention.key_heads;
  return {0.0, numbers * attention.layers * attention.bytes_per_number};
}

/// Number of tokens beyond which `one` needs strictly less than `other` (proposition I.14: 2 r^2 + P r + r + 1 over
/// r + P for a head of SKA against a head of attention, equal numbers). 0: from the first token on; infinite: never.
/// NaN when a cost is NaN.
inline double crossover_tokens(const MemoryCost& one, const MemoryCost& other) {
  const double ahead = one.fixed - other.fixed, gained = other.per_token - one.per_token;
  if (std::isnan(ahead) || std::isnan(gained)) return NAN;
  if (gained > 0.0) return std::max(0.0, ahead / gained);
  return gained == 0.0 && ahead < 0.0 ? 0.0 : INFINITY;
}

}  // namespace afterglow
