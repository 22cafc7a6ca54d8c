// Query Jacobians of SKA and softmax attention.
#include "core/analysis/attention/query_jacobian.h"

#include <algorithm>
#include <cmath>

#include "core/analysis/linear_algebra/decompositions.h"
#include "core/analysis/linear_algebra/spectrum.h"

namespace afterglow {
namespace {

/// Softmax weights, their largest m, and 1 - m without cancellation.
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

/// The covariance form sum w (v - mean)(k - mean)^T keeps its digits where one weight is almost 1.
std::vector<double> attention_jacobian(const RowMajorView& K, const RowMajorView& V, const Eigen::VectorXd& w,
                                       double scale) {
  const Eigen::RowVectorXd mean_key = w.transpose() * K, mean_value = w.transpose() * V;
  const RowMajor centred_keys = K.rowwise() - mean_key, centred_values = V.rowwise() - mean_value;
  return stored(scale * (centred_values.transpose() * w.asDiagonal() * centred_keys));
}

/// scale |V| |K|.
double attention_norms(std::span<const double> keys, std::span<const double> values, int tokens, int rank,
                       double scale) {
  const int width = static_cast<int>(values.size()) / tokens;
  return std::abs(scale) * spectral_norm(values, tokens, width) * spectral_norm(keys, tokens, rank);
}

/// (|G| + eps) / eps, by which J.4 and J.6 bound the condition of L.
double spread_of(const SkaHead& head) { return (symmetric_range(head.G, head.rank).largest + head.ridge) / head.ridge; }

/// J.4 from |B_v| and |A|.
double ska_bound(const SkaHead& head, double norm_B, double norm_A) {
  const double g = std::max(head.gamma, norm_A);
  return std::abs(head.eta) * norm_B * std::pow(g, head.power) * std::sqrt(spread_of(head));
}

}  // namespace

std::vector<AttentionJacobian> attention_query_jacobians(std::span<const double> keys, std::span<const double> values,
                                                         std::span<const double> queries, int tokens, int rank,
                                                         double scale) {
  if (tokens < 1 || rank < 1 || values.empty() || values.size() % tokens != 0 || queries.size() % rank != 0) return {};
  if (keys.size() != static_cast<std::size_t>(tokens) * static_cast<std::size_t>(rank)) return {};
  const int width = static_cast<int>(values.size()) / tokens;
  const RowMajorView K(keys.data(), tokens, rank), V(values.data(), tokens, width);
  const RowMajorView Q(queries.data(), static_cast<Eigen::Index>(queries.size()) / rank, rank);
  if (!K.allFinite() || !V.allFinite()) return {};
  const double norms = attention_norms(keys, values, tokens, rank, scale);
  std::vector<AttentionJacobian> results;
  for (Eigen::Index i = 0; i < Q.rows(); ++i) {
    const Eigen::VectorXd scores = scale * (K * Q.row(i).transpose());
    if (!scores.allFinite()) return {};
    const Weights weights(scores);
    AttentionJacobian& result = results.emplace_back();
    result.J = attention_jacobian(K, V, weights.w, scale);
    result.singular_values = singular_values(result.J, width, rank);
    if (result.singular_values.empty()) return {};
    result.rank = numerical_rank(result.singular_values);
    result.rank_bound = std::min({width, rank, tokens - 1});
    result.max_weight = weights.largest;
    result.bound = 0.5 * norms;
    result.saturation_bound = 2.0 * weights.rest * norms;
    result.sharp_bound = weights.largest * std::min(1.0, 2.0 * weights.rest) * norms;
  }
  return results;
}

std::vector<double> attention_answer(std::span<const double> keys, std::span<const double> values,
                                     std::span<const double> query, double scale) {
  if (query.empty() || keys.empty() || keys.size() % query.size() != 0) return {};
  const auto rank = static_cast<Eigen::Index>(query.size()), tokens = static_cast<Eigen::Index>(keys.size()) / rank;
  if (values.empty() || values.size() % static_cast<std::size_t>(tokens) != 0) return {};
  const RowMajorView K(keys.data(), tokens, rank),
      V(values.data(), tokens, static_cast<Eigen::Index>(values.size()) / tokens);
  const Eigen::VectorXd scores = scale * (K * Eigen::Map<const Eigen::VectorXd>(query.data(), rank));
  if (!scores.allFinite()) return {};
  return stored(V.transpose() * Weights(scores).w);
}

double linearity_gap(const QueryMap& f, std::span<const double> queries, int rank) {
  const auto r = static_cast<std::size_t>(std::max(rank, 0));
  if (r == 0 || queries.size() < 2 * r || queries.size() % r != 0) return std::nan("");
  const auto answer = [&](std::span<const double> query) -> Eigen::VectorXd {
    const std::vector<double> y = f(query);
    return Eigen::Map<const Eigen::VectorXd>(y.data(), static_cast<Eigen::Index>(y.size()));
  };
  double largest = 0.0;
  Eigen::VectorXd last = answer(queries.first(r));
  for (std::size_t at = r; at < queries.size(); at += r) {
    std::vector<double> middle(r);
    for (std::size_t i = 0; i < r; ++i) middle[i] = 0.5 * (queries[at - r + i] + queries[at + i]);
    const Eigen::VectorXd next = answer(queries.subspan(at, r)), between = answer(middle);
    if (last.size() == 0 || next.size() != last.size() || between.size() != last.size()) return std::nan("");
    const double size = 0.5 * (last.norm() + next.norm()), off = (between - 0.5 * (last + next)).norm();
    if (off > 0.0 || std::isnan(off)) largest = std::isnan(off) ? off : std::max(largest, off / size);
    if (std::isnan(largest)) return largest;
    last = next;
  }
  return largest;
}

double attention_query_bound(std::span<const double> keys, std::span<const double> values, int tokens, int rank,
                             double scale) {
  if (tokens < 1 || values.empty() || values.size() % static_cast<std::size_t>(tokens) != 0) return std::nan("");
  return 0.5 * attention_norms(keys, values, tokens, rank, scale);
}

double ska_query_bound(const SkaHead& head) {
  const SkaOperators operators = ska_operators(head);
  if (operators.empty() || head.value_width < 1) return std::nan("");
  return ska_bound(head, spectral_norm(operators.value_map, head.value_width, head.rank),
                   spectral_norm(operators.A, head.rank, head.rank));
}

std::optional<SkaJacobian> ska_query_jacobian(const SkaHead& head) {
  const SkaOperators operators = ska_operators(head);
  if (operators.empty() || head.value_width < 1) return std::nullopt;
  const int r = head.rank, P = head.value_width;
  const RowMajorView L(operators.L.data(), r, r), A(operators.A.data(), r, r);
  RowMajor product = RowMajorView(operators.readout.data(), P, r);
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
  const double eta = std::abs(head.eta);
  result.bound = ska_bound(head, of_B.front(), result.norm_A);
  result.sharp_bound = eta * spectral_norm(operators.readout, P, r) * std::pow(result.norm_A, head.power) /
                       std::sqrt(gram.smallest + head.ridge);
  const double least_B = P >= r ? of_B.back() : 0.0;
  result.lower_bound = eta * least_B * std::pow(result.least_A, head.power) / std::sqrt(spread_of(head));
  return result;
}

}  // namespace afterglow
