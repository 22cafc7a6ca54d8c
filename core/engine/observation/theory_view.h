// Echo's theorems beside measurements on one live SKA head, after the whole probe sequence; plain numbers for figures.
#pragma once
#include <cstdint>
#include <vector>

namespace afterglow {

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

  /// Singular values of dy/dq, descending, with the bounds on the largest and smallest (J.4, J.6).
  std::vector<double> jacobian;
  double jacobian_bound = 0, jacobian_sharp_bound = 0, jacobian_lower_bound = 0;
};

}  // namespace afterglow
