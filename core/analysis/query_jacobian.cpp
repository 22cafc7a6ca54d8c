// Query Jacobians of SKA and softmax attention.
#include "core/analysis/query_jacobian.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "core/analysis/singular_values.h"
#include "core/analysis/spectrum.h"

namespace afterglow {

namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using View = Eigen::Map<const RowMajor>;

std::vector<double> stored(const RowMajor& matrix) { return {matrix.data(), matrix.data() + matrix.size()}; }

/// Softmax weights with their largest and what is left beside it: 1 - m without cancellation.
struct Weights {
  Eigen::VectorXd w;
  double largest = 0.0, rest = 0.0;

  explicit Weights(const Eigen::VectorXd& scores) {
    Eigen::Index top = 0;
    const double highest = scores.maxCoeff(&top);
    w = (scores.array() - highest).exp();
    w[top] = 0.0;
    const double others = w.sum();
    w[top] = 1.0;
    largest = 1.0 / (1.0 + others);
    rest = others * largest;
    w *= largest;
  }
};

}  // namespace

std::optional<AttentionJacobian> attention_query_jacobian(std::span<const double> keys, std::span<const double> values,
                                                          std::span<const double> query, int tokens, double scale) {
  const std::size_t r = query.size();
  if (tokens < 1 || r < 1 || keys.size() != tokens * r || values.empty() || values.size() % tokens != 0)
    return std::nullopt;
  const int columns = static_cast<int>(r), rows = static_cast<int>(values.size() / tokens);
  const View K(keys.data(), tokens, columns), V(values.data(), tokens, rows);
  const Eigen::VectorXd scores = scale * (K * Eigen::Map<const Eigen::VectorXd>(query.data(), columns));
  if (!K.allFinite() || !V.allFinite() || !scores.allFinite()) return std::nullopt;
  const Weights weights(scores);

  // The covariance form sum w (v - mean)(k - mean)^T keeps its digits where one weight is almost 1.
  const Eigen::RowVectorXd mean_key = weights.w.transpose() * K, mean_value = weights.w.transpose() * V;
  const RowMajor centred_keys = K.rowwise() - mean_key, centred_values = V.rowwise() - mean_value;
  const RowMajor J = scale * (centred_values.transpose() * weights.w.asDiagonal() * centred_keys);
  if (!J.allFinite()) return std::nullopt;

  AttentionJacobian result;
  result.J = stored(J);
  result.singular_values = singular_values(result.J, rows, columns);
  result.rank = numerical_rank(result.singular_values);
  result.rank_bound = std::min({rows, columns, tokens - 1});
  result.max_weight = weights.largest;
  const double norms = std::abs(scale) * spectral_norm(values, tokens, rows) * spectral_norm(keys, tokens, columns);
  result.bound = 0.5 * norms;
  result.saturation_bound = 2.0 * weights.rest * norms;
  result.sharp_bound = weights.largest * std::min(1.0, 2.0 * weights.rest) * norms;
  return result;
}

std::optional<SkaJacobian> ska_query_jacobian(const SkaHead& head) {
  const SkaOperators operators = ska_operators(head);
  if (operators.empty() || head.value_width < 1) return std::nullopt;
  const int r = head.rank, P = head.value_width;
  const View L(operators.L.data(), r, r), A(operators.A.data(), r, r);
  RowMajor product = View(operators.readout.data(), P, r);
  for (int k = 0; k < head.power; ++k) product = product * A;
  const RowMajor J = head.eta * L.transpose().triangularView<Eigen::Upper>().solve(product.transpose()).transpose();
  if (!J.allFinite()) return std::nullopt;

  SkaJacobian result;
  result.J = stored(J);
  result.singular_values = singular_values(result.J, P, r);
  result.rank = numerical_rank(result.singular_values);
  const std::vector<double> of_A = singular_values(operators.A, r, r);
  const std::vector<double> of_B = singular_values(operators.value_map, P, r);
  result.norm_A = of_A.front();
  result.least_A = of_A.back();
  const SymmetricRange gram = symmetric_range(head.G, r);
  const double eta = std::abs(head.eta), spread = (gram.largest + head.ridge) / head.ridge;
  const double g = std::max(head.gamma, result.norm_A);
  result.bound = eta * of_B.front() * std::pow(g, head.power) * std::sqrt(spread);
  result.sharp_bound = eta * spectral_norm(operators.readout, P, r) * std::pow(result.norm_A, head.power) /
                       std::sqrt(gram.smallest + head.ridge);
  const double least_B = P >= r ? of_B.back() : 0.0;
  result.lower_bound = eta * least_B * std::pow(result.least_A, head.power) / std::sqrt(spread);
  return result;
}

}  // namespace afterglow
