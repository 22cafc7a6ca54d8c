// Cases of the Kalman recursion.
#include "core/ops/ops.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {

namespace {

struct KalmanSizes {
  std::int64_t batch, tokens, heads, keys, width;
};

/// Each S_t solved anew from the statistics of its prefix, by elimination without pivots (the matrix is positive
/// definite); an empty vector is an absent weight.
Values naive_kalman(const KalmanSizes& n, double ridge, const Values& q, const Values& k, const Values& v,
                    const Values& weight) {
  Values y;
  y.resize(v.size());
  const std::int64_t columns = n.keys + n.width;
  for (std::int64_t b = 0; b < n.batch; ++b) {
    for (std::int64_t head = 0; head < n.heads; ++head) {
      Values sums(static_cast<std::size_t>(n.keys * columns), 0.0);  // [H + lambda I | U]
      for (std::int64_t i = 0; i < n.keys; ++i) sums[i * columns + i] = ridge;
      for (std::int64_t t = 0; t < n.tokens; ++t) {
        const std::int64_t row = (b * n.tokens + t) * n.heads + head;
        const double w = weight.empty() ? 1.0 : weight[row];
        for (std::int64_t i = 0; i < n.keys; ++i) {
          const double factor = w * k[row * n.keys + i];
          for (std::int64_t j = 0; j < n.keys; ++j) sums[i * columns + j] += factor * k[row * n.keys + j];
          for (std::int64_t p = 0; p < n.width; ++p) sums[i * columns + n.keys + p] += factor * v[row * n.width + p];
        }
        Values m = sums;
        for (std::int64_t i = 0; i < n.keys; ++i) {
          for (std::int64_t other = 0; other < n.keys; ++other) {
            const double factor = m[other * columns + i] / m[i * columns + i];
            for (std::int64_t j = i; other != i && j < columns; ++j)
              m[other * columns + j] -= factor * m[i * columns + j];
          }
        }
        for (std::int64_t p = 0; p < n.width; ++p) {
          double& out = y[row * n.width + p];
          out = 0;
          for (std::int64_t i = 0; i < n.keys; ++i)
            out += q[row * n.keys + i] * m[i * columns + n.keys + p] / m[i * columns + i];
        }
      }
    }
  }
  return y;
}

OpCase kalman(const KalmanSizes& n, bool weighted) {
  OpCase c;
  c.name = std::string(weighted ? "kalman_weighted_" : "kalman_") + std::to_string(n.batch) + "x" +
           std::to_string(n.tokens) + "x" + std::to_string(n.heads) + "x" + std::to_string(n.keys) + "x" +
           std::to_string(n.width);
  c.inputs = {{"q", {n.batch, n.tokens, n.heads, n.keys}},
              {"k", {n.batch, n.tokens, n.heads, n.keys}},
              {"v", {n.batch, n.tokens, n.heads, n.width}}};
  if (weighted) c.inputs.push_back({"weight", {n.batch, n.tokens, n.heads}, 0.05, 1.0});
  c.run = [weighted](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    return kalman_scan(t, {in[0], in[1], in[2], weighted ? in[3] : Var{}, 0.7}, {});
  };
  c.naive = [n, weighted](std::span<const Values> in, std::span<const Values>) {
    return naive_kalman(n, 0.7, in[0], in[1], in[2], weighted ? in[3] : Values{});
  };
  c.tolerance = 3e-5;
  c.reason = "the covariance is found by subtracting from I / lambda, and its condition grows with the tokens";
  return c;
}

}  // namespace

void add_kalman_cases(std::vector<OpCase>& cases) {
  for (const bool weighted : {false, true}) {
    cases.push_back(kalman({1, 1, 1, 1, 1}, weighted));
    cases.push_back(kalman({2, 37, 2, 5, 7}, weighted));
    cases.push_back(kalman({1, 65, 1, 17, 33}, weighted));
    cases.push_back(kalman({1, 33, 1, 37, 3}, weighted));
  }
}

}  // namespace afterglow::testing
