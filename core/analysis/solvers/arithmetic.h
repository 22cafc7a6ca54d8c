// The arithmetics that solvers are compared in: float64, float32, and what matrix units make of float32 operands.
#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace afterglow {

/// tf32 and bf16 round the operands of every product and accumulate in float32, as matrix units do; vectors themselves
/// stay float32. With whole_bf16 vectors, scalars and partial sums are bf16 as well.
enum class Arithmetic { fp64, fp32, tf32, bf16, whole_bf16 };

/// Those of a layer on a GPU, and float64.
inline constexpr std::array all_arithmetics{Arithmetic::bf16, Arithmetic::tf32, Arithmetic::fp32, Arithmetic::fp64};
/// Those of the papers' figures.
inline constexpr std::array study_arithmetics{Arithmetic::whole_bf16, Arithmetic::bf16, Arithmetic::tf32,
                                              Arithmetic::fp32, Arithmetic::fp64};

constexpr std::string_view name_of(Arithmetic arithmetic) {
  constexpr std::array<std::string_view, 5> names{"fp64", "fp32", "tf32", "bf16", "whole-bf16"};
  return names[static_cast<std::size_t>(arithmetic)];
}

/// The one of `all_arithmetics` with this name; fp32 for any other name.
constexpr Arithmetic arithmetic_named(std::string_view name) {
  for (const Arithmetic one : all_arithmetics)
    if (name_of(one) == name) return one;
  return Arithmetic::fp32;
}

/// 1/u, u the unit roundoff of the operands: 2^53, 2^24, 2^11, 2^8. Beyond this condition number a solution has no
/// correct digit.
constexpr double inverse_unit(Arithmetic arithmetic) {
  constexpr std::array<int, 5> bits{53, 24, 11, 8, 8};
  return static_cast<double>(std::int64_t{1} << bits[static_cast<std::size_t>(arithmetic)]);
}

/// x with the significand of the arithmetic, to the nearest, ties to even; NaN and infinities stay. fp32 and fp64 leave
/// a float as it is.
inline float rounded(float x, Arithmetic arithmetic) {
  const bool is_bf16 = arithmetic == Arithmetic::bf16 || arithmetic == Arithmetic::whole_bf16;
  const int dropped = is_bf16 ? 16 : arithmetic == Arithmetic::tf32 ? 13 : 0;
  if (dropped == 0 || !std::isfinite(x)) return x;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  bits += (1u << (dropped - 1)) - 1 + ((bits >> dropped) & 1u);
  return std::bit_cast<float>(bits & ~((1u << dropped) - 1));
}
inline double rounded(double x, Arithmetic) { return x; }

/// A number kept in bf16: an expression is evaluated in double and rounded where its value is stored or added.
class WholeBf16 {
 public:
  WholeBf16(double x = 0) : value_(rounded(static_cast<float>(x), Arithmetic::whole_bf16)) {}
  operator double() const { return static_cast<double>(value_); }
  WholeBf16& operator+=(double x) { return *this = *this + x; }
  WholeBf16& operator-=(double x) { return *this = *this - x; }
  WholeBf16& operator*=(double x) { return *this = *this * x; }
  WholeBf16& operator/=(double x) { return *this = *this / x; }

 private:
  float value_;
};

/// Calls `run` with a number of the type in which this arithmetic keeps vectors.
template <class Run>
auto with_numbers_of(Arithmetic arithmetic, const Run& run) {
  if (arithmetic == Arithmetic::fp64) return run(double{});
  if (arithmetic == Arithmetic::whole_bf16) return run(WholeBf16{});
  return run(float{});
}

}  // namespace afterglow
