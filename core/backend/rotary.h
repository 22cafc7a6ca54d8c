// Rates of the rotary position code: how fast each pair of a head turns.
#pragma once
#include <cstdint>

namespace afterglow {

/// Pair i of the first `width` columns of a head turns by position * rate(i); the other columns stay as they are. Rates
/// are base^(-2i/width). With a `factor` other than 1 they are divided by it, but for the share m of each in [0, 1]
/// that is kept: rate * ((1 - m) / factor + m), where m rises from `low` to `high`, over turns in `original` positions
/// (Llama 3) or over the number of the pair, falling (YaRN), or is 0 (linear).
struct RotaryRates {
  enum class Kept { none, by_turns, by_pair };
  double base = 10000.0;
  std::int64_t width = 0;  ///< even; 0: all columns of a head
  double factor = 1.0;
  Kept kept = Kept::none;
  double low = 0, high = 0, original = 0;
  double gain = 1.0;  ///< on what turns (YaRN's attention factor)

  /// What the rate of pair i is multiplied by; `rate`: base^(-2i/width).
  constexpr double stretch(std::int64_t i, double rate) const {
    constexpr double two_pi = 6.283185307179586;
    if (factor == 1.0) return 1.0;
    const double at = kept == Kept::by_turns ? original * rate / two_pi : static_cast<double>(i);
    double share = kept == Kept::none ? 0.0 : (at - low) / (high - low);
    share = share < 0.0 ? 0.0 : share > 1.0 ? 1.0 : share;
    if (kept == Kept::by_pair) share = 1.0 - share;
    return (1.0 - share) / factor + share;
  }
};

}  // namespace afterglow
