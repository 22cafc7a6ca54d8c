// The distance between linear attention and ridge retrieval.
#include "core/analysis/attention/linear_attention_gap.h"

#include <algorithm>
#include <limits>

#include "core/analysis/koopman/ska_head.h"
#include "core/analysis/linear_algebra/decompositions.h"
#include "core/analysis/linear_algebra/spectrum.h"

namespace afterglow {
namespace {

LinearAttentionGap::Query compare(const Eigen::VectorXd& linear, const Eigen::VectorXd& ridge, double shared_factor) {
  LinearAttentionGap::Query result;
  // By the unit vector: the square of a tiny ridge answer may vanish where the answer does not.
  const double ridge_norm = ridge.stableNorm();
  const Eigen::VectorXd direction = ridge_norm > 0.0 ? Eigen::VectorXd(ridge / ridge_norm) : ridge;
  const double along = std::max(0.0, linear.dot(direction));
  if (ridge_norm > 0.0) result.best_factor = along / ridge_norm;
  result.gap = (linear - along * direction).norm();
  result.shared_gap = (linear - shared_factor * ridge).norm();
  return result;
}

}  // namespace

LinearAttentionGap linear_attention_gap(std::span<const double> G, std::span<const double> C, double ridge, int rank,
                                        int value_width, std::span<const double> queries) {
  LinearAttentionGap result;
  result.kappa = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> no_transitions(G.size(), 0.0);
  SkaHead head{.rank = rank, .value_width = value_width, .G = G, .M = no_transitions, .C = C, .ridge = ridge};
  const SkaOperators operators = ska_operators(head);
  if (operators.empty() || queries.size() % static_cast<std::size_t>(rank) != 0) return result;
  const RowMajorView rows(queries.data(), static_cast<Eigen::Index>(queries.size()) / rank, rank);
  if (!rows.allFinite()) return result;

  const SymmetricRange range = symmetric_range(G, rank);
  result.lambda_min = range.smallest + ridge;
  result.lambda_max = range.largest + ridge;
  result.kappa = result.lambda_max / result.lambda_min;
  const double sum = result.lambda_min + result.lambda_max;
  result.contraction = (result.lambda_max - result.lambda_min) / sum;
  result.shared_factor = 2.0 * result.lambda_min * (result.lambda_max / sum);
  const RowMajorView covariance(C.data(), value_width, rank), B(operators.value_map.data(), value_width, rank);
  const double norm_C = spectral_norm(C, value_width, rank);
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    const Eigen::VectorXd q = rows.row(i).transpose();
    LinearAttentionGap::Query query = compare(covariance * q, B * q, result.shared_factor);
    query.bound = norm_C * result.contraction * q.norm();
    result.queries.push_back(query);
  }
  return result;
}

std::vector<double> ridge_gradient_step(std::span<const double> B, std::span<const double> keys,
                                        std::span<const double> values, int rank, double ridge, double step) {
  const auto r = static_cast<std::size_t>(std::max(rank, 0));
  if (r == 0 || B.empty() || B.size() % r != 0 || keys.size() % r != 0) return {};
  const std::size_t width = B.size() / r, tokens = keys.size() / r;
  if (values.size() != tokens * width) return {};
  const auto rows = [](std::size_t size) { return static_cast<Eigen::Index>(size); };
  const RowMajorView map(B.data(), rows(width), rows(r)), Z(keys.data(), rows(tokens), rows(r)),
      V(values.data(), rows(tokens), rows(width));
  const RowMajor missed = V - Z * map.transpose();
  const RowMajor gradient = 2.0 * ridge * map - 2.0 * missed.transpose() * Z;
  const RowMajor next = map - step * gradient;
  return {next.data(), next.data() + next.size()};
}

double largest_difference(std::span<const double> A, std::span<const double> B, std::span<const double> queries,
                          int rank) {
  const auto r = static_cast<std::size_t>(std::max(rank, 0));
  if (r == 0 || A.empty() || A.size() != B.size() || A.size() % r != 0 || queries.empty() || queries.size() % r != 0)
    return std::numeric_limits<double>::quiet_NaN();
  const auto width = static_cast<Eigen::Index>(A.size() / r);
  const RowMajor difference = RowMajorView(A.data(), width, rank) - RowMajorView(B.data(), width, rank);
  const RowMajorView rows(queries.data(), static_cast<Eigen::Index>(queries.size() / r), rank);
  const RowMajor answers = rows * difference.transpose();
  return answers.rowwise().norm().maxCoeff();
}

}  // namespace afterglow
