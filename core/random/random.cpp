// Drawing from a Philox sequence: words, uniforms, integers without bias, normals.
#include "core/random/random.h"

#include <cmath>
#include <numbers>

namespace afterglow {

void Random::skip(std::uint64_t words) {
  const std::uint64_t at = std::uint64_t{4} * position_ + used_ - 4 + words;  // the next word
  position_ = static_cast<std::uint32_t>(at / 4);
  used_ = 4;
  for (std::uint64_t i = 0; i < at % 4; ++i) next_u32();
}

std::uint32_t Random::next_u32() {
  if (used_ == 4) {
    block_ = philox_at(seed_, stream_, index_, position_++);
    used_ = 0;
  }
  const std::uint32_t words[] = {block_.x0, block_.x1, block_.x2, block_.x3};
  return words[used_++];
}

std::uint64_t Random::next_u64() {
  const std::uint64_t low = next_u32();
  return low | (static_cast<std::uint64_t>(next_u32()) << 32);
}

double Random::uniform() { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }

std::uint64_t Random::uniform_int(std::uint64_t n) {
  if (n <= 1) return 0;
  if (n <= 0xFFFFFFFFu) {
    const auto bound = static_cast<std::uint32_t>(n);
    const std::uint32_t threshold = (0u - bound) % bound;  // 2^32 mod n: rejecting low words below it removes the bias
    for (;;) {
      const std::uint64_t product = static_cast<std::uint64_t>(next_u32()) * bound;
      if (static_cast<std::uint32_t>(product) >= threshold) return product >> 32;
    }
  }
  const std::uint64_t threshold = (0u - n) % n;
  for (;;) {
    const std::uint64_t word = next_u64();
    if (word >= threshold) return word % n;
  }
}

double Random::normal() {
  const double radius =
      std::sqrt(-2.0 * std::log(1.0 - uniform()));  // 1 - u lies in (0, 1], so the logarithm is finite
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

}  // namespace afterglow
