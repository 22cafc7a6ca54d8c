// Cases of the Koopman MLP's core.
#include <cmath>

#include "core/ops/ops.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {

namespace {

OpCase koopman(std::int64_t rows, std::int64_t pairs, bool gated) {
  OpCase c;
  c.name = std::string("koopman_modes_") + (gated ? "gated_" : "") + std::to_string(rows) + "x" + std::to_string(pairs);
  c.inputs = {{"lifted", {rows, 2 * pairs}, -4, 4}, {"gamma", {pairs}, -1.1, 1.1}, {"omega", {pairs}, -1.1, 1.1}};
  if (gated) c.inputs.push_back({"gate", {rows, 2 * pairs}, -3, 3});
  c.run = [gated](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    return koopman_modes(t, in[0], in[1], in[2], gated ? in[3] : Var{});
  };
  c.naive = [rows, pairs, gated](std::span<const Values> in, std::span<const Values>) {
    Values z;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < pairs; ++i) {
        const std::int64_t at = (row * pairs + i) * 2;
        const double u0 = in[0][at] * sigmoid(in[0][at]), u1 = in[0][at + 1] * sigmoid(in[0][at + 1]);
        const double modulus = std::max(1.0, std::hypot(in[1][i], in[2][i]));
        const double g = in[1][i] / modulus, w = in[2][i] / modulus;
        z.push_back((g * u0 + w * u1) * (gated ? sigmoid(in[3][at]) : 1.0));
        z.push_back((-w * u0 + g * u1) * (gated ? sigmoid(in[3][at + 1]) : 1.0));
      }
    }
    return z;
  };
  c.tolerance = 3e-6;
  c.reason = "exponentials to a few units in the last place, and sums over rows of either sign";
  return c;
}

/// By Gauss-Jordan elimination for every block, as a matrix of equations and its right sides.
Values cayley(const Values& A, std::int64_t block, std::int64_t b) {
  const auto skew = [&](std::int64_t i, std::int64_t j) {
    return A[(block * b + i) * b + j] - A[(block * b + j) * b + i];
  };
  Values left(static_cast<std::size_t>(b * b)), right(left.size());
  for (std::int64_t i = 0; i < b * b; ++i) {
    const double one = i / b == i % b ? 1.0 : 0.0;
    left[i] = one + skew(i / b, i % b);
    right[i] = one - skew(i / b, i % b);
  }
  for (std::int64_t p = 0; p < b; ++p) {
    for (std::int64_t i = 0; i < b; ++i) {
      if (i == p) continue;
      const double factor = left[i * b + p] / left[p * b + p];
      for (std::int64_t j = 0; j < b; ++j) {
        left[i * b + j] -= factor * left[p * b + j];
        right[i * b + j] -= factor * right[p * b + j];
      }
    }
  }
  for (std::int64_t i = 0; i < b * b; ++i) right[i] /= left[i / b * b + i / b];
  return right;
}

OpCase mixed(std::int64_t rows, std::int64_t blocks, std::int64_t b) {
  OpCase c;
  c.name = "mixed_modes_" + std::to_string(rows) + "x" + std::to_string(blocks) + "x" + std::to_string(b);
  const std::int64_t columns = blocks * b;
  c.inputs = {{"u", {rows, columns}},
              {"A", {blocks, b, b}, -0.5, 0.5},
              {"gamma", {columns / 2}, -1.1, 1.1},
              {"omega", {columns / 2}, -1.1, 1.1}};
  c.run = [](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    return mixed_modes(t, in[0], in[1], in[2], in[3]);
  };
  c.naive = [=](std::span<const Values> in, std::span<const Values>) {
    Values y(in[0].size());
    for (std::int64_t block = 0; block < blocks; ++block) {
      const Values Q = cayley(in[1], block, b);
      for (std::int64_t row = 0; row < rows; ++row) {
        const auto mixed = [&](std::int64_t i) {
          double sum = 0;
          for (std::int64_t j = 0; j < b; ++j) sum += Q[i * b + j] * in[0][row * columns + block * b + j];
          return sum;
        };
        for (std::int64_t i = 0; i < b; i += 2) {
          const std::int64_t pair = (block * b + i) / 2;
          const double modulus = std::max(1.0, std::hypot(in[2][pair], in[3][pair]));
          const double g = in[2][pair] / modulus, w = in[3][pair] / modulus;
          y[row * columns + block * b + i] = g * mixed(i) + w * mixed(i + 1);
          y[row * columns + block * b + i + 1] = g * mixed(i + 1) - w * mixed(i);
        }
      }
    }
    return y;
  };
  c.tolerance = 1e-5;
  c.reason = "one inverse and sums over a block of channels";
  return c;
}

}  // namespace

void add_koopman_cases(std::vector<OpCase>& cases) {
  for (const bool gated : {false, true}) {
    cases.push_back(koopman(1, 1, gated));
    cases.push_back(koopman(37, 33, gated));
    cases.push_back(koopman(101, 16, gated));
  }
  cases.push_back(mixed(5, 1, 2));
  cases.push_back(mixed(37, 3, 6));
  cases.push_back(mixed(9, 2, 64));
}

}  // namespace afterglow::testing
