// Token weights of SKA, linear attention, Mamba-2 and Mamba-3, the delta-rule family, the Kalman
// recursion and Gated KalmaNet.
#include "core/analysis/attention/token_weights.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <optional>

#include "core/analysis/linear_algebra/decompositions.h"

namespace afterglow {
namespace {

WeightMatrix finished(const RowMajor& weights) {
  if (!weights.allFinite()) return {};
  return {weights.data(), weights.data() + weights.size()};
}

/// scale q_t . k_s for s <= t, otherwise 0; nothing when the sizes do not fit or a number is not finite.
std::optional<RowMajor> scores(std::span<const double> keys, std::span<const double> queries, int tokens,
                               double scale) {
  if (tokens < 1 || keys.empty() || keys.size() % tokens != 0 || queries.size() != keys.size()) return std::nullopt;
  const Eigen::Index width = static_cast<Eigen::Index>(keys.size()) / tokens;
  RowMajor products =
      scale * (RowMajorView(queries.data(), tokens, width) * RowMajorView(keys.data(), tokens, width).transpose());
  if (!products.allFinite()) return std::nullopt;
  products.triangularView<Eigen::StrictlyUpper>().setZero();
  return products;
}

int groups_of(const SkaTokens& head) { return (head.tokens + head.piece - 1) / head.piece; }

bool is_sound(const SkaTokens& head) {
  if (head.tokens < 1 || head.rank < 1 || head.piece < 1 || head.power < 0) return false;
  const std::size_t tokens = head.tokens, r = head.rank, groups = groups_of(head);
  const bool sizes = head.keys.size() == tokens * r && head.queries.size() == tokens * r &&
                     head.L.size() == groups * r * r && head.A_w.size() == groups * r * r && head.m.size() == groups &&
                     head.sigma.size() == groups && (head.mask.empty() || head.mask.size() == tokens);
  return sizes && all_finite(head.keys) && all_finite(head.queries) && all_finite(head.L) && all_finite(head.A_w) &&
         all_finite(head.m) && all_finite(head.sigma);
}

/// (1 / m^2) L^-T A^K L^-1 q for the queries of group g, one a column: their products with raw keys are the weights.
Eigen::MatrixXd prepared_queries(const SkaTokens& head, int g, int first, int count) {
  const int r = head.rank;
  const std::ptrdiff_t matrix = static_cast<std::ptrdiff_t>(g) * r * r;
  const RowMajorView L(head.L.data() + matrix, r, r), A_w(head.A_w.data() + matrix, r, r);
  const double m = head.m[static_cast<std::size_t>(g)];
  const double scale = head.gamma / std::max(head.sigma[static_cast<std::size_t>(g)], 1.0);
  Eigen::MatrixXd columns = RowMajorView(head.queries.data(), head.tokens, r).middleRows(first, count).transpose() / m;
  L.triangularView<Eigen::Lower>().solveInPlace(columns);
  for (int k = 0; k < head.power; ++k) columns = scale * (A_w * columns);
  L.transpose().triangularView<Eigen::Upper>().solveInPlace(columns);
  return columns / m;
}

}  // namespace

WeightMatrix ska_token_weights(const SkaTokens& head) {
  if (!is_sound(head)) return {};
  const RowMajorView keys(head.keys.data(), head.tokens, head.rank);
  RowMajor weights = RowMajor::Zero(head.tokens, head.tokens);
  for (int g = 0; g < groups_of(head); ++g) {
    const int first = g * head.piece, count = std::min(head.piece, head.tokens - first);
    const int contributing = head.exclusive ? first : first + count;
    if (contributing == 0) continue;  // nothing is known yet: the layer answers 0
    weights.block(first, 0, count, contributing) =
        prepared_queries(head, g, first, count).transpose() * keys.topRows(contributing).transpose();
  }
  for (std::size_t s = 0; s < head.mask.size(); ++s) {
    if (!head.mask[s]) weights.col(static_cast<Eigen::Index>(s)).setZero();
  }
  return finished(weights);
}

WeightMatrix linear_token_weights(std::span<const double> keys, std::span<const double> queries, int tokens,
                                  double scale) {
  std::optional<RowMajor> weights = scores(keys, queries, tokens, scale);
  if (!weights) return {};
  return finished(*weights);
}

WeightMatrix mamba2_token_weights(std::span<const double> B, std::span<const double> C, std::span<const double> dt,
                                  std::span<const double> log_decay_cumsum, int tokens) {
  std::optional<RowMajor> weights = scores(B, C, tokens, 1.0);
  const std::size_t count = static_cast<std::size_t>(std::max(tokens, 0));
  if (!weights || dt.size() != count || log_decay_cumsum.size() != count) return {};
  for (int t = 0; t < tokens; ++t) {
    for (int s = 0; s <= t; ++s) (*weights)(t, s) *= dt[s] * std::exp(log_decay_cumsum[t] - log_decay_cumsum[s]);
  }
  return finished(*weights);
}

WeightMatrix trapezoid_token_weights(std::span<const double> keys, std::span<const double> queries,
                                     std::span<const double> dt, std::span<const double> lag,
                                     std::span<const double> log_decay_cumsum, int tokens) {
  std::optional<RowMajor> weights = scores(keys, queries, tokens, 1.0);
  const std::size_t count = static_cast<std::size_t>(std::max(tokens, 0));
  if (!weights || dt.size() != count || lag.size() != count || log_decay_cumsum.size() != count) return {};
  for (int t = 0; t < tokens; ++t) {
    for (int s = 0; s < t; ++s)
      (*weights)(t, s) *= (dt[s] + lag[s + 1]) * std::exp(log_decay_cumsum[t] - log_decay_cumsum[s]);
    (*weights)(t, t) *= dt[t];
  }
  return finished(*weights);
}

// Row t of the weights by walking back from the query: before token s it has passed the corrections and decays of all
// tokens between s and t.
WeightMatrix delta_token_weights(const DeltaTokens& head) {
  if (!scores(head.keys, head.queries, head.tokens, 1.0)) return {};
  const Eigen::Index T = head.tokens, width = static_cast<Eigen::Index>(head.keys.size()) / T;
  const auto fits = [&](std::span<const double> values, Eigen::Index count) {
    return static_cast<Eigen::Index>(values.size()) == count && all_finite(values);
  };
  const bool by_channel = head.log_decay.size() == head.keys.size() && width > 1;
  if (!head.beta.empty() && !fits(head.beta, T)) return {};
  if (!head.log_decay.empty() && !fits(head.log_decay, by_channel ? T * width : T)) return {};
  const RowMajorView keys(head.keys.data(), T, width), queries(head.queries.data(), T, width);
  RowMajor decays = RowMajor::Ones(T, width);
  if (by_channel) decays = RowMajorView(head.log_decay.data(), T, width).array().exp();
  if (!by_channel && !head.log_decay.empty())
    decays = RowMajorView(head.log_decay.data(), T, 1).array().exp().matrix().replicate(1, width);
  RowMajor weights = RowMajor::Zero(T, T);
  for (Eigen::Index t = 0; t < T; ++t) {
    Eigen::RowVectorXd reader = head.scale * queries.row(t);
    for (Eigen::Index s = t; s >= 0; --s) {
      const double read = reader.dot(keys.row(s)) * (head.beta.empty() ? 1.0 : head.beta[static_cast<std::size_t>(s)]);
      weights(t, s) = read;
      if (!head.beta.empty()) reader -= read * keys.row(s);
      reader = reader.cwiseProduct(decays.row(s));
    }
  }
  return finished(weights);
}

WeightMatrix kalman_token_weights(std::span<const double> keys, std::span<const double> queries,
                                  std::span<const double> weights, double ridge, int tokens) {
  if (!scores(keys, queries, tokens, 1.0) || !(ridge > 0)) return {};
  if (!weights.empty() && (weights.size() != static_cast<std::size_t>(tokens) || !all_finite(weights))) return {};
  const Eigen::Index width = static_cast<Eigen::Index>(keys.size()) / tokens;
  const RowMajorView key(keys.data(), tokens, width), query(queries.data(), tokens, width);
  Eigen::MatrixXd gram = ridge * Eigen::MatrixXd::Identity(width, width);
  RowMajor result = RowMajor::Zero(tokens, tokens);
  for (int t = 0; t < tokens; ++t) {
    gram += (weights.empty() ? 1.0 : weights[static_cast<std::size_t>(t)]) * key.row(t).transpose() * key.row(t);
    const Eigen::VectorXd solution = gram.ldlt().solve(query.row(t).transpose());
    result.row(t).head(t + 1) = (key.topRows(t + 1) * solution).transpose();
  }
  for (int s = 0; s < tokens && !weights.empty(); ++s) result.col(s) *= weights[static_cast<std::size_t>(s)];
  return finished(result);
}

WeightMatrix solved_token_weights(std::span<const double> keys, std::span<const double> readers,
                                  std::span<const double> log_gate, double scale, int tokens) {
  std::optional<RowMajor> weights = scores(keys, readers, tokens, scale);
  const std::size_t count = static_cast<std::size_t>(std::max(tokens, 0));
  if (!weights || (!log_gate.empty() && log_gate.size() != count)) return {};
  for (int t = 0; t < tokens && !log_gate.empty(); ++t) {
    double faded = 0;  // log of what is left of token s at t
    for (int s = t - 1; s >= 0; --s) {
      faded += log_gate[static_cast<std::size_t>(s + 1)];
      (*weights)(t, s) *= std::exp(faded);
    }
  }
  return finished(*weights);
}

}  // namespace afterglow
