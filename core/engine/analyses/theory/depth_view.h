// How the gradient of the loss grows or shrinks backwards through the layers, compared with Echo's bounds (appendix J);
// plain numbers for figures.
#pragma once
#include <cstdint>
#include <vector>

namespace afterglow {

/// Index l = 0 is the embedding's output, l = m the head's input; branch l leads from l to l + 1.
struct DepthView {
  std::int64_t step = 0;              ///< training step of the weights
  std::vector<int> layers;            ///< [m] index of each branch into ModelSummary::layers, lowest first
  std::vector<double> gradient;       ///< [m+1] |∂L/∂h_l| over all tokens of the inspected sequence
  std::vector<double> branch_norms;   ///< [m] |J_l| of each branch without its residual, by power iteration
  std::vector<double> branch_bounds;  ///< [m] proposition J.8 including the norm; NaN without a closed form
  /// [m] Propositions J.4 (SKA) and J.2 (softmax attention) with norm and projections, for the path through the
  /// branch's queries with fixed keys, values and statistics; NaN for other branches.
  std::vector<double> query_bounds;
  std::vector<double> residual_bound;  ///< [m+1] |g_m| prod (1 + |J_j|), j >= l: holds for residual models
  std::vector<double> residual_floor;  ///< [m+1] |g_m| prod max(0, 1 - |J_j|): a lower bound
  std::vector<double> branch_product;  ///< [m+1] |g_m| prod |J_j| of the measured norms: without residuals
  /// [m+1] Theorem J.9 in closed form: |g_m| times the product of `branch_bounds`, else `query_bounds`, else the
  /// measured norm: of the gradient that passes every branch, and SKA and attention through their queries.
  std::vector<double> closed_product;
};

}  // namespace afterglow
