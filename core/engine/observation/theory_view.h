// Echo's theorems beside measurements on one live SKA head, after the whole probe sequence; plain numbers for figures.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

namespace afterglow {

/// Softmax attention in the head's place, with its keys, values and queries (proposition J.2, corollary J.3): a list
/// holds a number for each of the last tokens' queries. Empty where a number is not finite.
struct SoftmaxTheory {
  std::vector<double> max_weight;        ///< m, of the most attended token
  std::vector<double> norm;              ///< |dy/dq|, largest singular value
  std::vector<double> saturation_bound;  ///< J.3, 2 (1 - m) |V| |K| / sqrt(r)
  std::vector<double> sharp_bound;       ///< min(m, 2 m (1 - m)) |V| |K| / sqrt(r)
  double bound = 0;                      ///< J.2, the same for every query: |V| |K| / (2 sqrt(r))
  std::vector<double> last;              ///< singular values for the last token's query, descending
  int rank = 0, rank_bound = 0;          ///< of the last token's, numerical; min(P, r, T - 1)
  /// How far the answers are from a linear map's over these queries, as a share of them (I.13); NaN: not known.
  double linearity_gap = std::numeric_limits<double>::quiet_NaN();
};

/// Every list is empty where the head is unsound (not finite, G + eps I not positive definite).
struct TheoryView {
  std::int64_t step = 0;  ///< training step of the weights
  int layer = -1, head = 0;
  int rank = 0, value_width = 0, heads = 0, layers = 0;  ///< r, P, H of the layer; how many SKA layers the model has
  /// Of all SKA layers in float32 (I.14): what they keep, what key-value caches of their widths would for each token,
  /// and the number of tokens beyond which the state is the smaller one.
  double state_bytes = 0, cache_bytes = 0, crossing = 0;
  int power = 2;                                    ///< K
  double ridge = 0, gamma = 1, eta = 1, kappa = 1;  ///< kappa of G + eps I

  /// Noise of relative size `noise[i]` in G and M: the largest of several draws (theorems C.1, C.3, corollary C.4).
  std::vector<double> noise, operator_change, operator_bound, sharp_operator_bound;
  std::vector<double> eigenvalue_change, bauer_fike, combined_bound, pencil_bound;
  double eigenvector_condition = 1;

  /// For K = 0, 1, ..: norms of the normalised and of the lifted power, with the paper's and the layer's own bound
  /// (propositions D.2, D.3).
  std::vector<double> norms, restored, paper_bounds, bounds;
  double sigma = 0;
  /// |F (A^K - I)|^2 and the same with eta (proposition I.10); `explained` is |F|^2.
  std::vector<double> excess, excess_with_gain;
  double explained = 0;
  /// Distance of the answer from what the persistent modes alone would say, with its bound (theorem I.11).
  std::vector<double> regime_error, regime_bound;
  int persistent = 0, transient = 0;
  double rho = 0, delta = 0;
  bool regime_applies = false;

  /// For each of the last tokens' queries: linear attention's distance from ridge retrieval, and the bound (I.6).
  std::vector<double> gap, shared_gap, gap_bound;
  int first_query = 0;  ///< token of the first of them
  /// Largest |C q - B_1 q| of them, B_1 one gradient step of size 1/2 from 0 on the ridge loss of the very keys and
  /// values (I.5): 0 up to rounding; NaN: not known.
  double gradient_step_gap = std::numeric_limits<double>::quiet_NaN();

  /// Singular values of dy/dq, descending, with the bounds on the largest and smallest (J.4, J.6). Here and in
  /// `softmax` q is the query divided by the key scale m, so that both tell the same change.
  std::vector<double> jacobian;
  int jacobian_rank = 0;  ///< numerical
  double jacobian_bound = 0, jacobian_sharp_bound = 0, jacobian_lower_bound = 0;
  double linearity_gap = std::numeric_limits<double>::quiet_NaN();  ///< as that of `softmax`: 0 up to rounding (I.13)
  SoftmaxTheory softmax;
};

}  // namespace afterglow
