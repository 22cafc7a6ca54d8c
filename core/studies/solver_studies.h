// Studies of solvers without a run: random regression problems, one layer and a small network that solves ridge
// systems, as in Gated KalmaNet's figures 1, 5 and 8; and two propositions of Echo.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "core/engine/observation/study_view.h"

namespace afterglow {

/// Figure 1's sizes: B 8, T 2048, H 8, D 128; for the network T 2048, H 2, D 128, 5 layers, vocabulary 5000.
StudySize full_size(bool network);

/// Called with the finished share.
using StudyProgress = std::function<void(double)>;

/// Largest |(H + λI) x_i - q| at each iteration over all problems of random unit keys and queries: H the sum of the
/// keys so far divided by its Frobenius norm, λ = strength (appendix D).
std::vector<double> worst_residuals(const StudySize& size, SolverKind solver, double strength, Arithmetic arithmetic,
                                    std::uint64_t seed, const StudyProgress& progress);

/// Costs and benefits of the ridge as a function of its strength a (appendix G): H and U of all keys and values of a
/// sequence, H divided by its norm, λ = a. Means of the true residual |H x - q| / |q| over random queries and of the
/// recall error |U x - v| / |v| over stored keys, each by Chebyshev in the arithmetic and (dashed) by Cholesky in
/// float64.
std::vector<StudyCurve> strength_study(const StudySize& size, Arithmetic arithmetic, std::uint64_t seed,
                                       const StudyProgress& progress);

/// Mean recall error |S^T k - v| / |v| over all stored pairs after the last write, by pairs over the width D: random
/// unit keys and values in Gated KalmaNet with λ = strength |H|, solved exactly, in DeltaNet, and (dashed) in the
/// exact filter without ridge, which no linear state surpasses.
std::vector<StudyCurve> capacity_study(const StudySize& size, double strength, std::uint64_t seed);

/// The divisors when a step is reverted (figure 5), over κ = (a + 1)/a for H as above: the smallest and the largest of
/// conjugate gradient over random queries, and (dashed) the bounds of Chebyshev's (remark 2).
std::vector<StudyCurve> divisor_study(const StudySize& size, Arithmetic arithmetic, std::uint64_t seed,
                                      const StudyProgress& progress);

/// Implicit and unrolled gradients of [q_t, k_t] of one layer of random unit keys and queries, as relative differences
/// from Cholesky in float64, by iteration count (figure 1b, d).
std::vector<StudyCurve> layer_gradient_study(const StudySize& size, SolverKind solver, double strength,
                                             Arithmetic arithmetic, std::uint64_t seed, const StudyProgress& progress);

/// The same for all weights of a network of `layers` blocks (norm, ridge layer y_t = U_t x_t, norm, SwiGLU) that
/// predicts random tokens, with batch 1, as the paper gives none (figure 1c, e). Everything but the solves is in
/// float64.
std::vector<StudyCurve> network_gradient_study(const StudySize& size, SolverKind solver, double strength,
                                               Arithmetic arithmetic, std::uint64_t seed,
                                               const StudyProgress& progress);

/// Echo, proposition C.5: |M|/G of k_t = c_t e^(iθ_t), and of |k_t|², over the largest step of the phase.
std::vector<StudyCurve> phase_study(std::uint64_t seed);
/// Echo, proposition J.1: the share of the logits' gradient, D of V numbers in the mean, that a random head lets
/// through.
std::vector<StudyCurve> head_study(std::uint64_t seed);

}  // namespace afterglow
