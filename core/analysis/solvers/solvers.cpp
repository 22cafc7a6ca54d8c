// Residual histories, theoretical rates, the weight schedule, its reversal, conditioning and gates.
#include "core/analysis/solvers/solvers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/analysis/linear_algebra/decompositions.h"
#include "core/analysis/solvers/solver_steps.h"

namespace afterglow {
namespace {

using steps::Vector;

/// (H + λI) x - q in float64.
template <class Number>
double residual_norm(const RidgeProblem& problem, const Vector<Number>& x) {
  const std::vector<double> found(x.begin(), x.end());
  const auto vector = [&](const std::vector<double>& of) { return Eigen::VectorXd::Map(of.data(), problem.size()); };
  const RowMajorView H(problem.H.data(), problem.size(), problem.size());
  return (H * vector(found) + problem.ridge * vector(found) - vector(problem.q)).norm();
}

template <class Number>
SolverRun run_in(SolverKind kind, const RidgeProblem& problem, int iterations, Arithmetic arithmetic) {
  SolverRun run;
  const steps::Matrix<Number> A(problem, arithmetic);
  steps::solve(kind, A, problem, iterations, [&](const Vector<Number>& x) {
    run.residuals.push_back(x.empty() ? std::numeric_limits<double>::quiet_NaN() : residual_norm(problem, x));
    run.solution.assign(x.begin(), x.end());
  });
  return run;
}

double rho_of(double mu, double L) { return (L - mu) / (L + mu); }

/// 1/T_k(1/ρ) = 2 σ^k/(1 + σ^{2k}), σ = (√κ - 1)/(√κ + 1).
double inverse_chebyshev(double mu, double L, int k) {
  const double root = std::sqrt(L / mu), power = std::pow((root - 1) / (root + 1), k);
  return 2 * power / (1 + power * power);
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

/// Relative errors of the iterates that come back when the weights are `nu`.
template <class Number>
std::vector<double> errors_of_return(const steps::Matrix<Number>& A, const RidgeProblem& problem,
                                     const std::vector<Vector<Number>>& forward, const Vector<Number>& nu) {
  const Number step = static_cast<Number>(2 / (problem.L + problem.mu));
  const Vector<Number> q = steps::converted<Number>(problem.q);
  std::vector<double> errors(forward.size(), 0.0);
  if (forward.size() < 3) return errors;
  Vector<Number> later = forward.back(), now = forward[forward.size() - 2];
  for (std::size_t i = forward.size() - 1; i >= 2; --i) {
    const Vector<Number> product = A.times(now);
    Vector<Number> earlier(q.size());
    for (std::size_t j = 0; j < q.size(); ++j)
      earlier[j] = (nu[i] * now[j] - step * nu[i] * (product[j] - q[j]) - later[j]) / (nu[i] - 1);
    const std::vector<double> found(earlier.begin(), earlier.end()),
        truth(forward[i - 2].begin(), forward[i - 2].end());
    errors[i - 2] = distance(found, truth) / frobenius_norm(truth);
    later = std::move(now);
    now = std::move(earlier);
  }
  return errors;
}

template <class Number>
ChebyshevReversal reversal_in(const RidgeProblem& problem, int iterations, Arithmetic arithmetic) {
  const steps::Matrix<Number> A(problem, arithmetic);
  std::vector<Vector<Number>> forward;
  steps::chebyshev(A, problem, iterations, [&](const Vector<Number>& x) { forward.push_back(x); });
  const Vector<Number> omega = steps::omegas<Number>(problem.mu, problem.L, iterations);
  const Number rho = static_cast<Number>(rho_of(problem.mu, problem.L));
  Vector<Number> nu = omega;
  for (std::size_t i = nu.size() - 1; i > 0; --i) nu[i - 1] = 4 / (rho * rho) * (1 - 1 / nu[i]);
  ChebyshevReversal result{errors_of_return(A, problem, forward, nu), errors_of_return(A, problem, forward, omega), {}};
  for (std::size_t i = 0; i < nu.size(); ++i)
    result.omega_error.push_back(std::abs(static_cast<double>(nu[i] - omega[i])));
  return result;
}

template <class Number>
std::vector<double> divisors_in(SolverKind kind, const RidgeProblem& problem, int iterations, Arithmetic arithmetic) {
  std::vector<double> divisors;
  if (kind == SolverKind::chebyshev) {
    const Vector<Number> omega = steps::omegas<Number>(problem.mu, problem.L, iterations);
    for (std::size_t i = 2; i < omega.size(); ++i) divisors.push_back(static_cast<double>(omega[i] - 1));
  }
  if (kind == SolverKind::conjugate_gradient) {
    std::vector<double> alphas, betas;
    const auto take = [&](const steps::ConjugateStep<Number>& s) {
      alphas.push_back(static_cast<double>(s.alpha));
      betas.push_back(static_cast<double>(s.beta));
    };
    const steps::Matrix<Number> A(problem, arithmetic);
    steps::conjugate_gradient(
        A, problem, iterations, [](const Vector<Number>&) {}, take);
    for (std::size_t i = 1; i < alphas.size(); ++i) divisors.push_back(alphas[i] * betas[i - 1] / alphas[i - 1]);
  }
  return divisors;
}

}  // namespace

std::string_view name_of(SolverKind kind) {
  constexpr std::array<std::string_view, 5> names{"Chebyshev", "gradient descent", "Nesterov", "conjugate gradient",
                                                  "Cholesky"};
  return names[static_cast<std::size_t>(kind)];
}

double frobenius_norm(std::span<const double> H) {
  double sum = 0;
  for (const double h : H) sum += h * h;
  return std::sqrt(sum);
}

RidgeProblem bounded_problem(std::vector<double> H, std::vector<double> q, double ridge) {
  const double largest = frobenius_norm(H) + ridge;
  return {std::move(H), std::move(q), ridge, ridge, largest};
}

bool is_solvable(const RidgeProblem& p) {
  const auto finite = [](std::span<const double> values) {
    return std::ranges::all_of(values, [](double v) { return std::isfinite(v); });
  };
  return !p.q.empty() && p.H.size() == p.q.size() * p.q.size() && finite(p.H) && finite(p.q) && p.ridge >= 0 &&
         p.mu > 0 && p.L >= p.mu && std::isfinite(p.L);
}

SolverRun run_solver(SolverKind kind, const RidgeProblem& problem, int iterations, Arithmetic arithmetic) {
  if (!is_solvable(problem)) return {};
  return with_numbers_of(arithmetic,
                         [&]<class Number>(Number) { return run_in<Number>(kind, problem, iterations, arithmetic); });
}

double residual_bound(SolverKind kind, double mu, double L, int i) {
  const double root = std::sqrt(L / mu);
  if (kind == SolverKind::chebyshev) return inverse_chebyshev(mu, L, i + 1);
  if (kind == SolverKind::gradient_descent) return std::pow(rho_of(mu, L), i + 1);
  if (kind == SolverKind::nesterov) return std::pow(1 - 1 / root, i + 1) * (1 + (i + 1) / root);
  if (kind == SolverKind::conjugate_gradient) return root * inverse_chebyshev(mu, L, i);
  return std::numeric_limits<double>::quiet_NaN();
}

std::vector<double> omega_schedule(double mu, double L, int iterations) {
  return steps::omegas<double>(mu, L, iterations);
}

double omega_limit(double mu, double L) {
  // 2 (1 - √(1 - ρ²))/ρ² = 2/(1 + √(1 - ρ²)), which also stands for ρ = 0.
  return 2 / (1 + 2 * std::sqrt(mu * L) / (L + mu));
}

double omega_bound(double mu, double L, int i) {
  const double root = std::sqrt(L / mu), limit = omega_limit(mu, L);
  return limit + std::pow(rho_of(mu, L) * (root - 1) / (root + 1), i) * (2 - limit);
}

ChebyshevReversal reverse_chebyshev(const RidgeProblem& problem, int iterations, Arithmetic arithmetic) {
  if (!is_solvable(problem)) return {};
  return with_numbers_of(arithmetic,
                         [&]<class Number>(Number) { return reversal_in<Number>(problem, iterations, arithmetic); });
}

std::vector<double> reversal_divisors(SolverKind kind, const RidgeProblem& problem, int iterations,
                                      Arithmetic arithmetic) {
  if (!is_solvable(problem)) return {};
  return with_numbers_of(
      arithmetic, [&]<class Number>(Number) { return divisors_in<Number>(kind, problem, iterations, arithmetic); });
}

std::vector<double> ridge_eigenvalues(const RidgeProblem& problem) {
  if (!is_solvable(problem)) return {};
  const Eigen::Map<const Eigen::MatrixXd> H(problem.H.data(), problem.size(), problem.size());
  Eigen::VectorXd values = symmetric_eigenvalues(H);
  values.array() += problem.ridge;
  return {values.begin(), values.end()};
}

double kappa_bound(double strength) { return (strength + 1) / strength; }

std::vector<double> memory_horizon(std::span<const double> log_decay, double share) {
  const double limit = std::log(share);
  std::vector<double> horizon;
  for (std::size_t t = 0; t < log_decay.size(); ++t) {
    double sum = 0;
    std::size_t back = 0;
    while (back <= t && sum >= limit) sum += log_decay[t - back++];
    horizon.push_back(static_cast<double>(back));
  }
  return horizon;
}

}  // namespace afterglow
