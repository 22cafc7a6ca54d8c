// Cases of the core of Gated KalmaNet: every H_t formed, every system solved by elimination. The iterations are many
// enough that the Chebyshev answer is the exact one; then finite differences meet the implicit gradient.
#include <cmath>

#include "core/backend/chebyshev.h"
#include "core/ops/ops.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {

namespace {

struct ChebyshevSizes {
  std::int64_t batch, tokens, heads, width;
  std::int64_t at(std::int64_t b, std::int64_t t, std::int64_t h) const { return (b * tokens + t) * heads + h; }
};

/// x of A x = right for a positive definite A [n,n], by elimination.
Values solve(Values A, Values right) {
  const std::size_t n = right.size();
  for (std::size_t p = 0; p < n; ++p) {
    for (std::size_t i = 0; i < n; ++i) {
      const double factor = i == p ? 0.0 : A[i * n + p] / A[p * n + p];
      for (std::size_t j = 0; j < n; ++j) A[i * n + j] -= factor * A[p * n + j];
      right[i] -= factor * right[p];
    }
  }
  for (std::size_t i = 0; i < n; ++i) right[i] /= A[i * n + i];
  return right;
}

/// The Chebyshev iteration as algorithm 1 has it, with omega_0 = 2.
Values iterate(const Values& H, double fro, double lambda, const Values& q, int iterations) {
  const std::size_t n = q.size();
  const double bound = fro + 2.0 * lambda, rho = fro / bound;
  Values before(n, 0.0), now(n);
  for (std::size_t i = 0; i < n; ++i) now[i] = 2.0 * q[i] / bound;
  double omega = 2.0;
  for (int r = 0; r < iterations; ++r) {
    omega = 4.0 / (4.0 - rho * rho * omega);
    Values next(n);
    for (std::size_t i = 0; i < n; ++i) {
      double residual = lambda * now[i] - q[i];
      for (std::size_t j = 0; j < n; ++j) residual += H[i * n + j] * now[j];
      next[i] = now[i] - 2.0 * omega / bound * residual + (omega - 1.0) * (now[i] - before[i]);
    }
    before = now;
    now = next;
  }
  return now;
}

/// One head of one sequence, token by token; `in` as the case's inputs.
void naive_head(const ChebyshevConfig& config, const ChebyshevSizes& n, std::span<const Values> in, bool gated,
                bool mixed, bool exact, std::int64_t b, std::int64_t h, Values& y) {
  const auto size = static_cast<std::size_t>(n.width);
  Values H(size * size, 0.0), S(size * size, 0.0);
  for (std::int64_t t = 0; t < n.tokens; ++t) {
    const std::int64_t row = n.at(b, t, h);
    const double *q = &in[0][row * n.width], *k = &in[1][row * n.width], *v = &in[2][row * n.width];
    const double gate = gated ? std::max(std::exp(in[3][row]), config.gate_floor) : 1.0;
    double fro = 0.0;
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t j = 0; j < size; ++j) {
        double &h_ij = H[i * size + j], &s_ij = S[i * size + j];
        h_ij = (config.decay_keys ? gate : 1.0) * h_ij + k[i] * k[j];
        s_ij = gate * s_ij + k[i] * v[j];
        fro += h_ij * h_ij;
      }
    }
    fro = std::sqrt(fro);
    const double lambda = config.fixed_lambda > 0 ? config.fixed_lambda : config.ridge * fro;
    Values A = H;
    for (std::size_t i = 0; i < size; ++i) A[i * size + i] += lambda;
    const Values query(q, q + size);
    Values p = exact ? solve(A, query) : iterate(H, fro, lambda, query, config.iterations);
    const double alpha = mixed ? in[in.size() - 1][row] : config.alpha;
    for (std::size_t i = 0; i < size; ++i) p[i] = q[i] + alpha * (p[i] - q[i]);
    for (std::size_t j = 0; j < size; ++j) {
      double sum = 0.0;
      for (std::size_t i = 0; i < size; ++i) sum += S[i * size + j] * p[i];
      y[row * n.width + static_cast<std::int64_t>(j)] = config.scale * sum;
    }
  }
}

struct Inputs {
  bool gated = true, mixed = true;
};

OpCase chebyshev_case(const std::string& name, const ChebyshevConfig& config, const ChebyshevSizes& n, double tolerance,
                      Inputs given = {}) {
  OpCase c;
  c.name = "chebyshev_" + name + "_" + std::to_string(n.batch) + "x" + std::to_string(n.tokens) + "x" +
           std::to_string(n.heads) + "_D" + std::to_string(n.width);
  const Shape panel{n.batch, n.tokens, n.heads, n.width}, numbers{n.batch, n.tokens, n.heads};
  c.inputs = {{"q", panel}, {"k", panel}, {"v", panel}};
  if (given.gated) c.inputs.push_back({"g", numbers, -1.0, 0.0});
  if (given.mixed) c.inputs.push_back({"alpha", numbers, 0.0, 1.0});
  c.run = [config, given](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    ChebyshevVars vars{in[0], in[1], in[2], {}, {}};
    if (given.gated) vars.g = in[3];
    if (given.mixed) vars.alpha = in[in.size() - 1];
    return chebyshev_readout(t, config, vars);
  };
  c.naive = [config, n, given](std::span<const Values> in, std::span<const Values>) {
    const bool exact = config.iterations > 50;
    Values y(in[0].size());
    for (std::int64_t b = 0; b < n.batch; ++b)
      for (std::int64_t h = 0; h < n.heads; ++h) naive_head(config, n, in, given.gated, given.mixed, exact, b, h, y);
    return y;
  };
  c.tolerance = tolerance;
  c.reason = "the condition number of H + lambda I, at most (a + 1)/a, multiplies the rounding";
  return c;
}

}  // namespace

void add_chebyshev_cases(std::vector<OpCase>& cases) {
  ChebyshevConfig config;
  config.iterations = 80;
  config.ridge = 0.1;
  config.chunk = 16;
  config.scale = 0.5;
  const auto with = [&](auto change) {
    ChebyshevConfig changed = config;
    change(changed);
    return changed;
  };
  cases.push_back(chebyshev_case("one", config, {1, 1, 1, 1}, 2e-5));
  cases.push_back(chebyshev_case("one_token", config, {3, 1, 2, 7}, 2e-5));
  cases.push_back(chebyshev_case("ragged", config, {2, 37, 2, 5}, 5e-5));
  cases.push_back(chebyshev_case("whole_chunks", config, {1, 64, 1, 8}, 5e-5));
  cases.push_back(chebyshev_case("weak_ridge", with([](auto& c) {
                                   c.ridge = 0.02;
                                   c.iterations = 160;
                                 }),
                                 {1, 65, 1, 9}, 2e-4));
  cases.push_back(chebyshev_case("wide", config, {1, 33, 1, 65}, 5e-5));
  cases.push_back(chebyshev_case("value_decay_only", with([](auto& c) { c.decay_keys = false; }), {1, 37, 2, 6}, 1e-4));
  cases.push_back(chebyshev_case("floored_gate", with([](auto& c) { c.gate_floor = 0.7; }), {1, 37, 2, 5}, 1e-4));
  cases.push_back(chebyshev_case("fixed_lambda", with([](auto& c) { c.fixed_lambda = 0.3; }), {2, 37, 1, 5}, 5e-5));
  cases.push_back(
      chebyshev_case("fixed_alpha", with([](auto& c) { c.alpha = 0.25; }), {1, 37, 1, 5}, 5e-5, {true, false}));
  cases.push_back(chebyshev_case("no_decay", config, {1, 37, 2, 5}, 1e-4, {false, true}));
  cases.push_back(chebyshev_case("bare", config, {2, 21, 1, 4}, 1e-4, {false, false}));
  cases.push_back(chebyshev_case("one_chunk", with([](auto& c) { c.chunk = 64; }), {1, 37, 1, 16}, 5e-5));
}

}  // namespace afterglow::testing
