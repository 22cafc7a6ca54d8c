// How far linear attention is from ridge retrieval, the bound on it (Echo theorem I.6), and the step of gradient
// descent that it takes towards it (proposition I.5).
#pragma once
#include <span>
#include <vector>

namespace afterglow {

/// Linear attention answers C q, ridge retrieval C G~^-1 q, G~ = G + eps I; they are compared up to a positive factor
/// a.
struct LinearAttentionGap {
  double lambda_min = 0.0, lambda_max = 0.0;  ///< of G~
  double kappa = 1.0;
  double contraction = 0.0;  ///< (kappa - 1) / (kappa + 1)
  /// a* = 2 / (1/lambda_min + 1/lambda_max): the best single factor against |I - a G~^-1|. The paper calls it the
  /// minimiser of the gap itself; that one depends on q and is `best_factor`.
  double shared_factor = 0.0;

  struct Query {
    double gap = 0.0;          ///< inf over a > 0 of |C q - a C G~^-1 q|
    double best_factor = 0.0;  ///< where it is attained; 0 when the two answers point apart
    double shared_gap = 0.0;   ///< the same at a*
    double bound = 0.0;        ///< |C| (kappa - 1) / (kappa + 1) |q|; gap <= shared_gap <= bound
  };
  std::vector<Query> queries;
};

/// G [r*r] without ridge, C [P*r], queries [n*r] as rows. The bound is from above and attained (C = I and q between the
/// extreme eigenvectors), but it is no bound from below, as the paper's summary I.10 has it: where C sees one direction
/// only, the gap is 0 for any G. `queries` is empty, and kappa NaN, when a size is wrong, a number is not finite or G~
/// is not positive definite.
LinearAttentionGap linear_attention_gap(std::span<const double> G, std::span<const double> C, double ridge, int rank,
                                        int value_width, std::span<const double> queries);

/// B - step dL/dB [P*r] with the ridge loss L(B) = sum |v_t - B z_t|^2 + ridge |B|_F^2 (proposition I.2), from the
/// pairs themselves: keys [T*r], values [T*P]. From B = 0 with step 1/2 it is linear attention's C = sum v_t z_t^T, for
/// any ridge (proposition I.5). Empty when r < 1 or a size is wrong.
std::vector<double> ridge_gradient_step(std::span<const double> B, std::span<const double> keys,
                                        std::span<const double> values, int rank, double ridge, double step);

/// Largest |A q - B q| of the queries [n*r], for maps A, B [P*r]; NaN without a query or when a size is wrong.
double largest_difference(std::span<const double> A, std::span<const double> B, std::span<const double> queries,
                          int rank);

}  // namespace afterglow
