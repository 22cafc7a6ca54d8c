// The arithmetics that solvers are compared in: float64, float32, and what matrix units make of float32 operands.
#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace afterglow {

/// tf32 and bf16 round the operands of every product and accumulate in float32, as matrix units do; vectors themselves
/// stay float32.
enum class Arithmetic { fp64, fp32, tf32, bf16 };

inline constexpr std::array all_arithmetics{Arithmetic::bf16, Arithmetic::tf32, Arithmetic::fp32, Arithmetic::fp64};

constexpr std::string_view name_of(Arithmetic arithmetic) {
  constexpr std::array<std::string_view, 4> names{"fp64", "fp32", "tf32", "bf16"};
  return names[static_cast<std::size_t>(arithmetic)];
}

/// 1/u, u the unit roundoff of the operands: 2^53, 2^24, 2^11, 2^8. Beyond this condition number a solution has no
/// correct digit.
constexpr double inverse_unit(Arithmetic arithmetic) {
  constexpr std::array<int, 4> bits{53, 24, 11, 8};
  return static_cast<double>(std::int64_t{1} << bits[static_cast<std::size_t>(arithmetic)]);
}

/// x with the significand of the arithmetic, to the nearest, ties to even; NaN and infinities stay. fp32 and fp64 leave
/// a float as it is.
inline float rounded(float x, Arithmetic arithmetic) {
  const int dropped = arithmetic == Arithmetic::bf16 ? 16 : arithmetic == Arithmetic::tf32 ? 13 : 0;
  if (dropped == 0 || !std::isfinite(x)) return x;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  bits += (1u << (dropped - 1)) - 1 + ((bits >> dropped) & 1u);
  return std::bit_cast<float>(bits & ~((1u << dropped) - 1));
}
inline double rounded(double x, Arithmetic) { return x; }

}  // namespace afterglow
