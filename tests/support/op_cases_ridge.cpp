// Cases of the SKA core: every query answered on its own, with an explicit inverse, a plain factorisation and repeated
// matrix-vector products, straight from the definition.
#include <cmath>

#include "core/ops/ops.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {

namespace {

using Mode = RidgeConfig::Mode;
using Norm = RidgeConfig::Norm;

struct RidgeCaseSizes {
  std::int64_t batch, tokens, heads, r, width;
};

/// Small dense matrices, row by row.
struct Dense {
  std::int64_t rows, columns;
  Values values;
  Dense(std::int64_t m, std::int64_t n) : rows(m), columns(n), values(static_cast<std::size_t>(m * n), 0.0) {}
  double& operator()(std::int64_t i, std::int64_t j) { return values[i * columns + j]; }
  double operator()(std::int64_t i, std::int64_t j) const { return values[i * columns + j]; }
};

Dense product(const Dense& a, const Dense& b) {
  Dense c(a.rows, b.columns);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t k = 0; k < a.columns; ++k)
      for (std::int64_t j = 0; j < b.columns; ++j) c(i, j) += a(i, k) * b(k, j);
  return c;
}
Dense transposed(const Dense& a) {
  Dense t(a.columns, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j) t(j, i) = a(i, j);
  return t;
}
void scale_by(Dense& a, double factor) {
  for (double& value : a.values) value *= factor;
}

/// Gauss-Jordan; the diagonal is the pivot, which suits positive definite and triangular matrices.
Dense inverse(Dense a) {
  Dense result(a.rows, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i) result(i, i) = 1.0;
  for (std::int64_t p = 0; p < a.rows; ++p) {
    const double pivot = a(p, p);
    for (std::int64_t j = 0; j < a.rows; ++j) {
      a(p, j) /= pivot;
      result(p, j) /= pivot;
    }
    for (std::int64_t i = 0; i < a.rows; ++i) {
      const double factor = i == p ? 0.0 : a(i, p);
      for (std::int64_t j = 0; j < a.rows; ++j) {
        a(i, j) -= factor * a(p, j);
        result(i, j) -= factor * result(p, j);
      }
    }
  }
  return result;
}

Dense cholesky(const Dense& a) {
  Dense L(a.rows, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      double sum = a(i, j);
      for (std::int64_t k = 0; k < j; ++k) sum -= L(i, k) * L(j, k);
      L(i, j) = i == j ? std::sqrt(sum) : sum / L(j, j);
    }
  }
  return L;
}

double norm(const Dense& v) {
  double sum = 0.0;
  for (const double value : v.values) sum += value * value;
  return std::sqrt(sum);
}

double power_iteration(const Dense& A, int iterations) {
  Dense v(A.rows, 1);
  for (double& value : v.values) value = 1.0 / std::sqrt(static_cast<double>(A.rows));
  for (int i = 0; i < iterations; ++i) {
    v = product(transposed(A), product(A, v));
    if (norm(v) == 0.0) return 0.0;
    scale_by(v, 1.0 / norm(v));
  }
  return norm(product(A, v));
}

/// A mask with corners: nothing selected, no two neighbours, one position, anything.
bool selected(std::int64_t sequence, std::int64_t t) {
  switch (sequence % 4) {
    case 0:
      return false;
    case 1:
      return t % 3 == 0;
    case 2:
      return t == 1;
    default:
      return t * 7 % 11 < 7;
  }
}

/// Whether position s contributes to the answer at t.
bool contributes(const RidgeConfig& config, std::int64_t sequence, std::int64_t s, std::int64_t t) {
  switch (config.mode) {
    case Mode::masked:
      return selected(sequence, s);
    case Mode::chunk:
      return s < t / config.chunk * config.chunk;
    case Mode::recurrent:
      return s <= t;
    default:
      return true;
  }
}

/// One head of one sequence; keys, queries [T,r], values [T,P].
struct Head {
  RidgeConfig config;
  std::int64_t sequence;
  Dense z, q, v;
  double eta, gamma;
  Values beta, length;  // of options: the left factors are beta z, and m is the largest length

  bool contributes_to(std::int64_t s, std::int64_t t) const { return contributes(config, sequence, s, t); }

  double scale_at(std::int64_t t) const {
    const bool whole = config.mode == Mode::chunk && config.norm == Norm::sequence;
    double m = 1e-6;
    for (std::int64_t s = 0; s < z.rows; ++s) {
      double square = 0.0;
      for (std::int64_t i = 0; i < z.columns; ++i) square += z(s, i) * z(s, i);
      if (whole || contributes_to(s, t)) m = std::max(m, length.empty() ? std::sqrt(square) : length[s]);
    }
    return m;
  }

  /// y_t = eta C (G + eps I)^-1 L A^K L^-1 q_t.
  Values answer(std::int64_t t) const {
    const std::int64_t r = z.columns, width = v.columns;
    const double m = scale_at(t);
    Dense G(r, r), M(r, r), C(width, r);
    bool any = false;
    for (std::int64_t s = 0; s < z.rows; ++s) {
      if (!contributes_to(s, t)) continue;
      any = true;
      const double weight = beta.empty() ? 1.0 : beta[s];
      for (std::int64_t j = 0; j < r; ++j) {
        for (std::int64_t i = 0; i < r; ++i) G(i, j) += weight * z(s, i) * z(s, j) / (m * m);
        for (std::int64_t i = 0; i < width; ++i) C(i, j) += v(s, i) * z(s, j) / m;
        if (s == 0 || !contributes_to(s - 1, t)) continue;
        for (std::int64_t i = 0; i < r; ++i) M(i, j) += weight * z(s, i) * z(s - 1, j) / (m * m);
      }
    }
    if (!any) return Values(static_cast<std::size_t>(width), 0.0);
    for (std::int64_t i = 0; i < r; ++i) G(i, i) += config.ridge;
    const Dense L = cholesky(G), L_inverse = inverse(L);
    Dense A = product(product(L_inverse, M), transposed(L_inverse));
    scale_by(A, gamma / std::max(power_iteration(A, config.power_iterations), 1.0));
    Dense w(r, 1);
    for (std::int64_t i = 0; i < r; ++i) w(i, 0) = q(t, i) / m;
    w = product(L_inverse, w);
    for (int k = 0; k < config.power; ++k) w = product(A, w);
    Dense y = product(product(C, inverse(G)), product(L, w));
    scale_by(y, eta);
    return y.values;
  }
};

/// Optional inputs: lengths as input 5, and left factors beta z with beta as input 6.
struct Given {
  bool length = false, left = false;
};

Values naive_ridge(const RidgeConfig& config, const RidgeCaseSizes& n, const Given& given, std::span<const Values> in) {
  const auto rows_of = [&](const Values& all, std::int64_t b, std::int64_t h, std::int64_t columns) {
    Dense panel(n.tokens, columns);
    for (std::int64_t t = 0; t < n.tokens; ++t)
      for (std::int64_t i = 0; i < columns; ++i) panel(t, i) = all[((b * n.tokens + t) * n.heads + h) * columns + i];
    return panel;
  };
  Values y(in[2].size());
  for (std::int64_t b = 0; b < n.batch; ++b) {
    for (std::int64_t h = 0; h < n.heads; ++h) {
      const Head head{config,
                      b,
                      rows_of(in[0], b, h, n.r),
                      rows_of(in[1], b, h, n.r),
                      rows_of(in[2], b, h, n.width),
                      in[3][h],
                      config.gamma.at(in[4][h]),
                      given.left ? rows_of(in[6], b, h, 1).values : Values{},
                      given.length ? rows_of(in[5], b, h, 1).values : Values{}};
      for (std::int64_t t = 0; t < n.tokens; ++t) {
        const Values answer = head.answer(t);
        const double shown = given.length ? 1.0 / head.scale_at(t) : 1.0;
        for (std::int64_t p = 0; p < n.width; ++p)
          y[((b * n.tokens + t) * n.heads + h) * n.width + p] = shown * answer[p];
      }
    }
  }
  return y;
}

Tensor upload_mask(Tape& tape, const RidgeCaseSizes& n, std::uint8_t roles) {
  std::vector<std::uint8_t> mask;
  // Positions that count alternate between the roles that do, the others between those that do not.
  std::vector<std::uint8_t> counted, others;
  for (std::uint8_t role = 0; role < 3; ++role) ((roles >> role & 1) != 0 ? counted : others).push_back(role);
  for (std::int64_t b = 0; b < n.batch; ++b) {
    for (std::int64_t t = 0; t < n.tokens; ++t) {
      const std::vector<std::uint8_t>& from = selected(b, t) ? counted : others;
      mask.push_back(from[static_cast<std::size_t>(t) % from.size()]);
    }
  }
  const Tensor tensor = tape.scratch({n.batch, n.tokens}, DType::u8);
  tape.backend().upload(tensor, mask.data());
  return tensor;
}

/// With lengths the result is the readout over m, so that the gradient through `ridge_scales` is seen.
OpCase ridge_case(const std::string& name, const RidgeConfig& config, const RidgeCaseSizes& n, double tolerance,
                  const Given& given = {}) {
  OpCase c;
  c.name = "ridge_" + name + "_K" + std::to_string(config.power) + "_" + std::to_string(n.batch) + "x" +
           std::to_string(n.tokens) + "x" + std::to_string(n.heads) + "_r" + std::to_string(n.r) + "_P" +
           std::to_string(n.width);
  c.inputs = {{"z", {n.batch, n.tokens, n.heads, n.r}},
              {"q", {n.batch, n.tokens, n.heads, n.r}},
              {"v", {n.batch, n.tokens, n.heads, n.width}},
              {"eta", {n.heads}, 0.5, 1.5},
              {"gamma_raw", {n.heads}}};
  if (given.length) c.inputs.push_back({"length", {n.batch, n.tokens, n.heads}, 0.5, 1.5});
  if (given.left) c.inputs.push_back({"beta", {n.batch, n.tokens, n.heads}, 0.2, 1.0});
  c.run = [config, n, given](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    const Tensor mask = config.mode == Mode::masked ? upload_mask(t, n, config.roles) : Tensor();
    RidgeVars vars{in[0], in[1], in[2], in[3], in[4], mask};
    if (!given.length) return ridge_readout(t, config, vars);
    vars.length = in[5];
    if (given.left) vars.left = multiply_rows(t, in[0], in[6], 0.0);
    RidgeSaved saved;
    const Var y = ridge_readout(t, config, vars, &saved);
    return multiply_rows(t, y, ridge_scales(t, config, in[5], saved), 0.0);
  };
  c.naive = [=](std::span<const Values> in, std::span<const Values>) { return naive_ridge(config, n, given, in); };
  c.tolerance = tolerance;
  c.reason = "the condition number of G + eps I multiplies the rounding of the statistics";
  return c;
}

RidgeConfig config_of(Mode mode, int power, double ridge = 0.02) {
  RidgeConfig config;
  config.mode = mode;
  config.power = power;
  config.ridge = ridge;
  return config;
}

}  // namespace

void add_ridge_cases(std::vector<OpCase>& cases) {
  for (const int power : {0, 1, 2, 5}) {
    cases.push_back(ridge_case("prefix", config_of(Mode::prefix, power), {2, 37, 2, 5, 7}, 2e-5));
    cases.push_back(ridge_case("masked", config_of(Mode::masked, power), {4, 13, 2, 4, 3}, 1e-4));
    for (const Norm norm : {Norm::sequence, Norm::prefix}) {
      RidgeConfig config = config_of(Mode::chunk, power);
      config.norm = norm;
      config.chunk = 8;
      cases.push_back(ridge_case(norm == Norm::prefix ? "chunk_prefix" : "chunk", config, {2, 37, 2, 5, 3}, 1e-4));
    }
    cases.push_back(ridge_case("recurrent", config_of(Mode::recurrent, power), {2, 13, 2, 3, 5}, 1e-4));
  }
  for (const std::uint8_t roles : {0b011, 0b110}) {
    RidgeConfig masked = config_of(Mode::masked, 1);
    masked.roles = roles;
    cases.push_back(ridge_case("masked_roles_" + std::to_string(roles), masked, {4, 13, 2, 4, 3}, 1e-4));
  }
  cases.push_back(ridge_case("prefix", config_of(Mode::prefix, 2), {1, 1, 1, 1, 1}, 1e-5));
  cases.push_back(ridge_case("prefix_small_ridge", config_of(Mode::prefix, 2, 1e-3), {1, 65, 1, 24, 33}, 2e-4));
  cases.push_back(ridge_case("recurrent", config_of(Mode::recurrent, 2, 0.05), {1, 37, 1, 17, 4}, 2e-4));
  RidgeConfig long_chunks = config_of(Mode::chunk, 2);
  cases.push_back(ridge_case("chunk_64", long_chunks, {1, 101, 1, 16, 63}, 1e-4));
  // The smallest matrices of the GPU, filled, and those after them.
  RidgeConfig chunks_of_20 = config_of(Mode::chunk, 2);
  chunks_of_20.norm = Norm::prefix;
  chunks_of_20.chunk = 20;
  for (const auto& [rank, width] : {std::pair<std::int64_t, std::int64_t>{16, 16}, {20, 24}, {15, 19}}) {
    cases.push_back(ridge_case("prefix", config_of(Mode::prefix, 2), {2, 50, 2, rank, width}, 1e-4));
    cases.push_back(ridge_case("masked", config_of(Mode::masked, 1), {2, 37, 2, rank, width}, 1e-4));
    cases.push_back(ridge_case("chunk_20_prefix", chunks_of_20, {2, 50, 2, rank, width}, 1e-4));
    cases.push_back(ridge_case("recurrent", config_of(Mode::recurrent, 2), {1, 21, 2, rank, width}, 2e-4));
  }
  // Lengths and left factors, in one tile and in several, in the three sizes of the GPU's matrices.
  // sigma, which has no gradient, could exceed 1 with left factors; without iterations and with this ridge it does not.
  for (const bool left : {false, true}) {
    const auto held = [&](RidgeConfig config) {
      if (left) {
        config.power_iterations = 0;
        config.ridge = 1.0;
      }
      return config;
    };
    const Given given{true, left};
    const std::string name = left ? "left_" : "length_";
    for (const auto& [rank, width] : {std::pair<std::int64_t, std::int64_t>{5, 7}, {20, 17}, {36, 40}}) {
      RidgeConfig whole = config_of(Mode::prefix, 2);
      whole.gamma = {0.5, 1.5};
      cases.push_back(ridge_case(name + "prefix", held(whole), {2, 37, 2, rank, width}, 2e-4, given));
      // A mask leaves fewer keys than columns, so the ridge alone bounds how far roundings grow.
      const double ridge = rank > 5 ? 0.3 : 0.02;
      cases.push_back(
          ridge_case(name + "masked", held(config_of(Mode::masked, 1, ridge)), {4, 13, 1, rank, width}, 2e-4, given));
      cases.push_back(ridge_case(name + "chunk_20", held(chunks_of_20), {2, 50, 2, rank, width}, 2e-4, given));
    }
    RidgeConfig one_by_one = config_of(Mode::chunk, 1);
    one_by_one.chunk = 1;
    cases.push_back(ridge_case(name + "chunk_1", held(one_by_one), {2, 11, 2, 4, 3}, 2e-4, given));
    cases.push_back(ridge_case(name + "recurrent", held(config_of(Mode::recurrent, 2)), {2, 13, 2, 3, 5}, 2e-4, given));
  }
  // Sizes that warp groups multiply.
  cases.push_back(ridge_case("chunk_64", long_chunks, {2, 150, 2, 56, 64}, 1e-4));
  RidgeConfig short_chunks = config_of(Mode::chunk, 3);
  short_chunks.norm = Norm::prefix;
  short_chunks.chunk = 20;
  cases.push_back(ridge_case("chunk_20_prefix", short_chunks, {1, 65, 2, 28, 36}, 1e-4));
  cases.push_back(ridge_case("masked", config_of(Mode::masked, 1), {2, 37, 1, 36, 24}, 1e-4));
  cases.push_back(ridge_case("recurrent", config_of(Mode::recurrent, 2), {1, 13, 1, 36, 36}, 2e-4));
}

}  // namespace afterglow::testing
