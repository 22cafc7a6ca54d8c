// Solvers of (H + λI) x = q with their residuals step by step, in several arithmetics, compared with what theory
// promises (Gated KalmaNet, algorithm 1, lemmas 3 and 4, appendix C.1).
#pragma once
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "core/analysis/solvers/arithmetic.h"

namespace afterglow {

enum class SolverKind { chebyshev, gradient_descent, nesterov, conjugate_gradient, cholesky };

inline constexpr std::array all_solvers{SolverKind::chebyshev, SolverKind::gradient_descent, SolverKind::nesterov,
                                        SolverKind::conjugate_gradient, SolverKind::cholesky};
/// "Chebyshev", "gradient descent", "Nesterov", "conjugate gradient", "Cholesky".
std::string_view name_of(SolverKind kind);

/// H is symmetric and positive semidefinite, so that the eigenvalues of H + ridge I lie in [mu, L].
struct RidgeProblem {
  std::vector<double> H;  ///< [n*n]
  std::vector<double> q;  ///< [n]
  double ridge = 0;       ///< λ >= 0
  double mu = 0, L = 0;   ///< bounds of the spectrum, L >= mu > 0; Chebyshev, gradient descent and Nesterov use them
  int size() const { return static_cast<int>(q.size()); }
};

double frobenius_norm(std::span<const double> H);
/// Bounds as Gated KalmaNet takes them: mu = ridge, L = |H|_F + ridge (section 4.1).
RidgeProblem bounded_problem(std::vector<double> H, std::vector<double> q, double ridge);
/// Whether sizes fit, every number is finite and 0 < mu <= L.
bool is_solvable(const RidgeProblem& problem);

/// One solver on one problem.
struct SolverRun {
  std::vector<double> residuals;  ///< |(H + λI) x_i - q|, i = 0..iterations: x_i has used i products; one for Cholesky
  std::vector<double> solution;   ///< [n]; empty when the factorisation failed
};
/// Starts: x_0 = 2q/(L + mu) for Chebyshev and gradient descent (step 2/(L + mu)), q/L for Nesterov (step 1/L, momentum
/// (√κ - 1)/(√κ + 1), κ = L/mu), 0 for conjugate gradient. Residuals are measured in float64 whatever the arithmetic. A
/// Cholesky factorisation that meets a pivot <= 0 has residual NaN. Empty for a problem that is not solvable.
SolverRun run_solver(SolverKind kind, const RidgeProblem& problem, int iterations, Arithmetic arithmetic);

/// What |r_i|/|q| cannot exceed in exact arithmetic, for any spectrum in [mu, L]; with σ = (√κ - 1)/(√κ + 1):
/// Chebyshev 1/T_{i+1}(1/ρ) <= 2 σ^{i+1}, attained at both ends; gradient descent ρ^{i+1}; Nesterov
/// (1 - 1/√κ)^{i+1} (1 + (i+1)/√κ), attained at mu; conjugate gradient √κ/T_i(1/ρ). NaN for Cholesky.
double residual_bound(SolverKind kind, double mu, double L, int i);

/// ω_0 = 2, ω_i = 4/(4 - ρ² ω_{i-1}), ρ = (L - mu)/(L + mu); i = 0..iterations.
std::vector<double> omega_schedule(double mu, double L, int iterations);
/// ω*_1 = 2 (1 - √(1 - ρ²))/ρ², the limit of the schedule from above (lemma 3).
double omega_limit(double mu, double L);
/// ω*_1 + R^i (2 - ω*_1), R = (κ - 1)/(κ + 1) (√κ - 1)/(√κ + 1): above ω_i (lemma 4).
double omega_bound(double mu, double L, int i);

/// Chebyshev run backwards from its last two iterates (appendix C.1). The sign of c_i q in eqs. 59 and 60 is
/// misprinted: x_{i-2} = (x_i - A_i x_{i-1} - c_i q)/b_i. Going back repels what going forward attracts: with each step
/// an error in ν grows by 1/σ² in the long run (ω_i nears its limit by σ², faster than lemma 4's R says), one in x by
/// 1/σ. In float32 30 steps at κ = 51 lose every digit of x_0 with ν, and all but two with the weights of the way
/// forward, whatever remark 2 says of stability.
struct ChebyshevReversal {
  std::vector<double> iterate_error;  ///< |x~_i - x_i|/|x_i|, i = 0..iterations, with the weights ν of eq. 57
  std::vector<double> kept_weights;   ///< the same with the weights of the way forward
  std::vector<double> omega_error;    ///< |ν_i - ω_i|, ν from ω_r by eq. 57
};
ChebyshevReversal reverse_chebyshev(const RidgeProblem& problem, int iterations, Arithmetic arithmetic);
/// What step i divides by when it is taken back, i = 2..iterations: the factor of x_{i-1} - x_{i-2} in x_i. Of
/// Chebyshev ω_i - 1 = -b_i (eq. 59), between ω*_1 - 1 and 1 (remark 2); of conjugate gradient α_i β_{i-1}/α_{i-1}, as
/// its steps can be written in the same form, which ends where nothing is left to divide by. Empty for the other
/// solvers and for a problem that is not solvable.
std::vector<double> reversal_divisors(SolverKind kind, const RidgeProblem& problem, int iterations,
                                      Arithmetic arithmetic);
/// Eigenvalues of H + ridge I, ascending; empty when the problem is not solvable.
std::vector<double> ridge_eigenvalues(const RidgeProblem& problem);
/// (a + 1)/a: κ(H + λI) stays below it when λ = a |H|_F (eq. 4).
double kappa_bound(double strength);

/// How many tokens back a memory reaches at each token: the least l with exp(g_t + .. + g_{t-l+1}) < share, where the
/// g <= 0 are log decays; t + 1 where all that was seen is still above it. Same size as log_decay.
std::vector<double> memory_horizon(std::span<const double> log_decay, double share);

}  // namespace afterglow
