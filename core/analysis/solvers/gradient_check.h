// Gradients of x = solve((H + λI) x = q): by implicit differentiation, through the unrolled iteration, and exactly
// (Gated KalmaNet, section 4.2.2, table 1, lemmas 1 and 2, appendix C).
#pragma once
#include <span>
#include <vector>

#include "core/analysis/solvers/solvers.h"

namespace afterglow {

enum class GradientRoute {
  implicit,  ///< the transposed system is solved with as many iterations; dA = -dq x^T
  unrolled   ///< the derivative of the truncated iteration itself, through its step and λ
};

/// Gradient of (upstream . x) where λ = strength |H|_F, mu = λ, L = |H|_F + λ follow H; with strength 0 the problem's
/// own ridge and bounds are constants.
struct SolveGradient {
  std::vector<double> solution;  ///< [n]
  std::vector<double> q;         ///< [n]
  std::vector<double> H;         ///< [n*n], not symmetrised
};
/// Chebyshev, conjugate gradient, or Cholesky (exact up to the arithmetic, by either route). Empty for another solver,
/// a problem that is not solvable or a factorisation that failed.
SolveGradient solve_gradient(SolverKind kind, GradientRoute route, const RidgeProblem& problem, double strength,
                             std::span<const double> upstream, int iterations, Arithmetic arithmetic);

/// Relative differences in the Euclidean norm.
struct GradientErrors {
  double q = 0, H = 0;
};
struct GradientCheck {
  int iterations = 0;
  GradientErrors implicit, unrolled;  ///< from the exact gradient, Cholesky in float64
  GradientErrors between;             ///< implicit from unrolled; for q of Chebyshev it is rounding alone (lemma 2)
};
/// One line for each number of iterations; empty when the problem cannot be solved.
std::vector<GradientCheck> gradient_check(SolverKind kind, const RidgeProblem& problem, double strength,
                                          std::span<const double> upstream, std::span<const int> iterations,
                                          Arithmetic arithmetic);

/// One head over a sequence: H_t = sum_{s <= t} k_s k_s^T, λ_t = strength |H_t|_F, x_t solves (H_t + λ_t I) x = q_t.
struct KeySequence {
  int tokens = 0, width = 0;
  std::span<const double> keys, queries;  ///< [T*D]
  double strength = 0.02;
};
/// x_t of every token, [T*D]; NaN from a token on whose factorisation failed.
std::vector<double> solve_sequence(const KeySequence& sequence, SolverKind kind, int iterations, Arithmetic arithmetic);
struct SequenceGradient {
  std::vector<double> keys, queries;  ///< [T*D]; eqs. 7 and 8
};
SequenceGradient sequence_gradient(const KeySequence& sequence, SolverKind kind, GradientRoute route, int iterations,
                                   Arithmetic arithmetic, std::span<const double> upstream);

}  // namespace afterglow
