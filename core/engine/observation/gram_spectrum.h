// Eigenvalues of a Gram matrix G = sum z z^T: how far the ridge shrinks each direction of the keys, and how G grows
// with the number of tokens (Echo propositions A.2 and E.1).
#pragma once
#include <span>
#include <vector>

namespace afterglow {

/// Proposition A.2: sigma_j / (sigma_j + ridge) for each eigenvalue of G [r], in their order: the factor that ridge
/// regression applies along that eigenvector, near 1 for frequent directions of the keys, 0 for absent ones. Negative
/// eigenvalues (rounding) count as 0. NaN if both are 0 or one is not finite.
std::vector<double> ridge_shrinkage(std::span<const double> gram, double ridge);

/// The three sizes of proposition E.1, each at most T for T keys of length at most 1 (eq. 51).
struct GramSize {
  double trace = 0.0;      ///< tr G = sum |z_t|^2
  double frobenius = 0.0;  ///< |G|_F
  double largest = 0.0;    ///< lambda_max(G); largest <= frobenius <= trace
};
/// From the eigenvalues of G [r]; all 0 without any.
GramSize gram_size(std::span<const double> gram);

}  // namespace afterglow
