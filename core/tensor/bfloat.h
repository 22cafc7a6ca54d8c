// Rounding to bfloat16, which is the upper half of a float32.
#pragma once
#include <bit>
#include <cstdint>

namespace afterglow {

/// The nearest bfloat16 of a finite number, and of two equally near the even one.
inline std::uint16_t to_bfloat(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace afterglow
