// Echo's theorems compared with measurements on one live SKA head, after the whole inspected sequence; plain numbers
// for figures.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "core/analysis/attention/query_jacobian.h"
#include "core/analysis/koopman/power_filter.h"

namespace afterglow {

/// Softmax attention with the head's keys, values and queries (proposition J.2, corollary J.3); lists have a number for
/// each of the last tokens' queries and are empty if a number is not finite.
struct SoftmaxTheory {
  std::vector<double> max_weight;        ///< m, of the most attended token
  std::vector<double> norm;              ///< |dy/dq|, largest singular value
  std::vector<double> saturation_bound;  ///< J.3, 2 (1 - m) |V| |K| / sqrt(r)
  std::vector<double> sharp_bound;       ///< min(m, 2 m (1 - m)) |V| |K| / sqrt(r)
  double bound = 0;                      ///< J.2, the same for every query: |V| |K| / (2 sqrt(r))
  std::vector<double> last;              ///< singular values for the last token's query, descending
  int rank = 0, rank_bound = 0;          ///< of the last token's, numerical; min(P, r, T - 1)
  /// Relative distance of the answers from a linear map over these queries (I.13); NaN: unknown.
  double linearity_gap = std::numeric_limits<double>::quiet_NaN();
};

/// Every list is empty if the head is unsound (not finite, or G + eps I not positive definite).
struct TheoryView {
  std::int64_t step = 0;  ///< training step of the weights
  int layer = -1, head = 0;
  int rank = 0, value_width = 0, heads = 0, layers = 0;  ///< r, P, H of the layer; how many SKA layers the model has
  /// Of all SKA layers in float32 (I.14): bytes of the state, bytes a token of key-value caches of the same widths, and
  /// the number of tokens above which the state is smaller.
  double state_bytes = 0, cache_bytes = 0, crossing = 0;
  int power = 2;                                    ///< K
  double ridge = 0, gamma = 1, eta = 1, kappa = 1;  ///< kappa of G + eps I

  /// Noise of relative size `noise[i]` in G and M: the largest of several draws (theorems C.1, C.3, corollary C.4).
  std::vector<double> noise, operator_change, operator_bound, sharp_operator_bound;
  std::vector<double> eigenvalue_change, bauer_fike, combined_bound, pencil_bound;
  double eigenvector_condition = 1;

  Contractivity powers;  ///< for K = 0, 1, .. (propositions D.2, D.3)
  ExcessRisk risk;       ///< for the same K (proposition I.10)
  /// Distance of the answer from that of the persistent modes alone, for the same K, with its bound (theorem I.11).
  std::vector<double> regime_error, regime_bound;
  PersistentRegime regime;  ///< for the last K

  /// For each of the last tokens' queries: linear attention's distance from ridge retrieval, and the bound (I.6).
  std::vector<double> gap, shared_gap, gap_bound;
  int first_query = 0;  ///< first token of these
  /// Their largest |C q - B_1 q|, B_1 one gradient step of size 1/2 from 0 on the ridge loss of the same keys and
  /// values (I.5): 0 up to rounding; NaN: unknown.
  double gradient_step_gap = std::numeric_limits<double>::quiet_NaN();

  /// Of dy/dq, with the bounds on the largest and smallest singular value (J.4, J.6). Here and in `softmax` q is the
  /// query divided by the key scale m, so that both can be compared.
  SkaJacobian jacobian;
  double linearity_gap = std::numeric_limits<double>::quiet_NaN();  ///< as in `softmax`: 0 up to rounding (I.13)
  SoftmaxTheory softmax;
};

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
