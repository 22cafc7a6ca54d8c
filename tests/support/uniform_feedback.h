// The closed form of the feedback solve on uniform routing, and the solve run on it.
#pragma once
#include <cmath>

#include "core/ops/ops.h"
#include "tests/support/host_values.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {

/// alpha[t,j] = 1/t with constant gamma answers an impulse at tau by
/// s_{tau+l} = gamma Gamma(tau+1) / Gamma(tau+1+gamma) * Gamma(tau+l+gamma) / Gamma(tau+l+1) (Sessa, corollary F.2).
inline double uniform_feedback(std::int64_t t, std::int64_t tau, double gamma) {
  if (t <= tau) return t == tau ? 1.0 : 0.0;
  const auto from = static_cast<double>(tau), at = static_cast<double>(t);
  return gamma * std::exp(std::lgamma(from + 1) - std::lgamma(from + 1 + gamma) + std::lgamma(at + gamma) -
                          std::lgamma(at + 1));
}

/// Error of the solve on uniform routing (queries of zero) with an impulse at a different token in every feature.
inline double uniform_feedback_error(Backend& backend, DType dtype, std::int64_t length, double gamma) {
  const std::int64_t sources[] = {0, 1, 5, 63, 64, 100, 1000, 2047}, width = 8;
  Values f(static_cast<std::size_t>(length * width), 0.0), want(f.size());
  for (std::int64_t c = 0; c < width; ++c) {
    if (sources[c] < length) f[sources[c] * width + c] = 1.0;
    for (std::int64_t t = 0; t < length; ++t)
      want[t * width + c] = sources[c] < length ? uniform_feedback(t, sources[c], gamma) : 0.0;
  }
  HostValues host(backend);
  Arena arena(backend);
  Tape tape(backend, arena);
  tape.begin(false);
  const auto input = [&](const Shape& shape, const Values& values) {
    return tape.constant(dtype == DType::f64 ? host.f64(shape, values)
                                             : host.f32(shape, std::vector<float>(values.begin(), values.end())));
  };
  const Var zero = input({1, length, 4}, Values(static_cast<std::size_t>(length * 4), 0.0));
  const Var gain = input({1, length}, Values(static_cast<std::size_t>(length), gamma));
  const Var s = feedback_solve(tape, {zero, zero, gain, input({1, length, width}, f)}, 1.0);
  Values got;
  if (dtype == DType::f64) {
    got = host.read<double>(s.value);
  } else {
    const std::vector<float> floats = host.read<float>(s.value);
    got.assign(floats.begin(), floats.end());
  }
  return relative_error(got, want);
}

}  // namespace afterglow::testing
