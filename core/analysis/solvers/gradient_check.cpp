// Reverse passes by hand through the iterations of solver_steps.h.
#include "core/analysis/solvers/gradient_check.h"

#include <algorithm>
#include <limits>

#include "core/analysis/linear_algebra/decompositions.h"
#include "core/analysis/solvers/solver_steps.h"

namespace afterglow {
namespace {

using steps::Matrix;
using steps::Vector;

/// Gradients with respect to A = H + λI and to the step length 2/(L + mu) where the iteration takes one.
template <class Number>
struct Pulled {
  Vector<Number> x, q, A;
  double step = 0;
};

template <class Number>
void add_outer(Vector<Number>& target, const Matrix<Number>& A, std::type_identity_t<Number> factor,
               const Vector<Number>& a, const Vector<Number>& b) {
  const std::size_t n = a.size();
  for (std::size_t i = 0; i < n; ++i) {
    const Number left = factor * A.operand(a[i]);
    for (std::size_t j = 0; j < n; ++j) target[i * n + j] += left * A.operand(b[j]);
  }
}

template <class Number>
double product_sum(const Vector<Number>& a, const Vector<Number>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

template <class Number>
Vector<Number> last_iterate(SolverKind kind, const Matrix<Number>& A, const RidgeProblem& problem, int iterations) {
  Vector<Number> last;
  steps::solve(kind, A, problem, iterations, [&](const Vector<Number>& x) { last = x; });
  return last;
}

template <class Number>
Pulled<Number> implicit_pull(SolverKind kind, const Matrix<Number>& A, const RidgeProblem& problem,
                             std::span<const double> upstream, int iterations) {
  Pulled<Number> pulled;
  pulled.x = last_iterate(kind, A, problem, iterations);
  RidgeProblem transposed = problem;
  transposed.q.assign(upstream.begin(), upstream.end());
  pulled.q = last_iterate(kind, A, transposed, iterations);
  if (pulled.x.empty() || pulled.q.empty()) return {};
  pulled.A.assign(problem.H.size(), 0);
  add_outer(pulled.A, A, Number(-1), pulled.q, pulled.x);
  return pulled;
}

/// Backwards through x_i = x_{i-1} - s w_i (A x_{i-1} - q) + (w_i - 1)(x_{i-1} - x_{i-2}). The weights stay: they
/// depend on L/mu = (1 + a)/a alone.
template <class Number>
Pulled<Number> unrolled_chebyshev(const Matrix<Number>& A, const RidgeProblem& problem,
                                  std::span<const double> upstream, int iterations) {
  std::vector<Vector<Number>> x;
  steps::chebyshev(A, problem, iterations, [&](const Vector<Number>& iterate) { x.push_back(iterate); });
  const Vector<Number> omega = steps::omegas<Number>(problem.mu, problem.L, iterations),
                       q = steps::converted<Number>(problem.q);
  const Number step = static_cast<Number>(2 / (problem.L + problem.mu));
  const std::size_t n = q.size();
  Pulled<Number> pulled{x.back(), Vector<Number>(n, 0), Vector<Number>(n * n, 0)};
  Vector<Number> now = steps::converted<Number>(upstream), before(n, 0);  // of x_i and x_{i-1}
  for (int i = iterations; i >= 1; --i) {
    const auto at = static_cast<std::size_t>(i);
    const Number w = omega[at], length = step * w;
    const Vector<Number> product = A.times(now);
    Vector<Number> rest = A.times(x[at - 1]), earlier(n);
    for (std::size_t j = 0; j < n; ++j) {
      rest[j] -= q[j];
      pulled.q[j] += length * now[j];
      before[j] += w * now[j] - length * product[j];
      earlier[j] = -(w - 1) * now[j];
    }
    add_outer(pulled.A, A, -length, now, x[at - 1]);
    pulled.step -= static_cast<double>(w) * product_sum(now, rest);
    now = std::move(before);
    before = std::move(earlier);
  }
  for (std::size_t j = 0; j < n; ++j) pulled.q[j] += step * now[j];
  pulled.step += product_sum(now, q);
  return pulled;
}

template <class Number>
Pulled<Number> unrolled_conjugate_gradient(const Matrix<Number>& A, const RidgeProblem& problem,
                                           std::span<const double> upstream, int iterations) {
  std::vector<steps::ConjugateStep<Number>> taken;
  Pulled<Number> pulled;
  steps::conjugate_gradient(
      A, problem, iterations, [&](const Vector<Number>& x) { pulled.x = x; },
      [&](const steps::ConjugateStep<Number>& step) { taken.push_back(step); });
  const std::size_t n = pulled.x.size();
  pulled.A.assign(n * n, 0);
  const Vector<Number> dx = steps::converted<Number>(upstream);
  Vector<Number> dr(n, 0), dp(n, 0), next_r(n, 0);  // of what follows a step
  Number drr = 0;
  for (std::size_t i = taken.size(); i-- > 0;) {
    const steps::ConjugateStep<Number>& s = taken[i];
    for (std::size_t j = 0; j < n; ++j) next_r[j] = s.r[j] - s.alpha * s.Ap[j];
    const Number dbeta = A.dot(dp, s.p);
    drr += dbeta / s.rr;  // of r'r'
    for (std::size_t j = 0; j < n; ++j) {
      dr[j] += dp[j] + 2 * drr * next_r[j];
      dp[j] *= s.beta;
    }
    const Number dalpha = A.dot(dx, s.p) - A.dot(dr, s.Ap), dpAp = -dalpha * s.alpha / s.pAp;
    drr = dalpha / s.pAp - dbeta * s.beta / s.rr;  // of rr
    Vector<Number> dAp(n);
    for (std::size_t j = 0; j < n; ++j) {
      dAp[j] = dpAp * s.p[j] - s.alpha * dr[j];
      dp[j] += s.alpha * dx[j] + dpAp * s.Ap[j];
    }
    add_outer(pulled.A, A, Number(1), dAp, s.p);
    const Vector<Number> back = A.times(dAp);
    for (std::size_t j = 0; j < n; ++j) dp[j] += back[j];
  }
  pulled.q = dr;
  const Vector<Number> q = steps::converted<Number>(problem.q);
  for (std::size_t j = 0; j < n; ++j) pulled.q[j] += dp[j] + 2 * drr * q[j];
  return pulled;
}

template <class Number>
Pulled<Number> pull(SolverKind kind, GradientRoute route, const RidgeProblem& problem, std::span<const double> upstream,
                    int iterations, Arithmetic arithmetic) {
  const Matrix<Number> A(problem, arithmetic);
  if (route == GradientRoute::implicit || kind == SolverKind::cholesky)
    return implicit_pull(kind, A, problem, upstream, iterations);
  return kind == SolverKind::chebyshev ? unrolled_chebyshev(A, problem, upstream, iterations)
                                       : unrolled_conjugate_gradient(A, problem, upstream, iterations);
}

template <class Number>
SolveGradient gradient_in(SolverKind kind, GradientRoute route, const RidgeProblem& problem, double strength,
                          std::span<const double> upstream, int iterations, Arithmetic arithmetic) {
  const Pulled<Number> pulled = pull<Number>(kind, route, problem, upstream, iterations, arithmetic);
  SolveGradient gradient;
  gradient.solution.assign(pulled.x.begin(), pulled.x.end());
  gradient.q.assign(pulled.q.begin(), pulled.q.end());
  gradient.H.assign(pulled.A.begin(), pulled.A.end());
  if (strength == 0 || gradient.H.empty()) return gradient;
  const std::size_t n = gradient.q.size();
  double trace = 0;
  for (std::size_t i = 0; i < n; ++i) trace += gradient.H[i * n + i];
  const double norm = frobenius_norm(problem.H), step = 2 / (problem.L + problem.mu);
  // λ = a |H|_F, step = 2/((1 + 2a) |H|_F).
  const double of_norm = (strength * trace - pulled.step * step / norm) / norm;
  for (std::size_t i = 0; i < gradient.H.size(); ++i) gradient.H[i] += of_norm * problem.H[i];
  return gradient;
}

template <class Number>
std::vector<double> solution_in(SolverKind kind, const RidgeProblem& problem, int iterations, Arithmetic arithmetic) {
  const Vector<Number> x = last_iterate(kind, Matrix<Number>(problem, arithmetic), problem, iterations);
  return {x.begin(), x.end()};
}

double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size() || a.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::vector<double> rest = a;
  for (std::size_t i = 0; i < a.size(); ++i) rest[i] -= b[i];
  return frobenius_norm(rest) / frobenius_norm(b);
}

GradientErrors errors(const SolveGradient& gradient, const SolveGradient& from) {
  return {relative_difference(gradient.q, from.q), relative_difference(gradient.H, from.H)};
}

using Row = Eigen::Map<const Eigen::VectorXd>;

/// (H_t + λ_t I) x = q_t.
RidgeProblem problem_of(const KeySequence& sequence, const RowMajor& H, const double* q) {
  return bounded_problem(stored(H), {q, q + sequence.width}, sequence.strength * H.norm());
}

}  // namespace

SolveGradient solve_gradient(SolverKind kind, GradientRoute route, const RidgeProblem& problem, double strength,
                             std::span<const double> upstream, int iterations, Arithmetic arithmetic) {
  const bool known =
      kind == SolverKind::chebyshev || kind == SolverKind::conjugate_gradient || kind == SolverKind::cholesky;
  if (!known || !is_solvable(problem) || upstream.size() != problem.q.size()) return {};
  return with_numbers_of(arithmetic, [&]<class Number>(Number) {
    return gradient_in<Number>(kind, route, problem, strength, upstream, iterations, arithmetic);
  });
}

std::vector<GradientCheck> gradient_check(SolverKind kind, const RidgeProblem& problem, double strength,
                                          std::span<const double> upstream, std::span<const int> iterations,
                                          Arithmetic arithmetic) {
  const auto gradient = [&](SolverKind solver, GradientRoute route, int count, Arithmetic in) {
    return solve_gradient(solver, route, problem, strength, upstream, count, in);
  };
  const SolveGradient exact = gradient(SolverKind::cholesky, GradientRoute::implicit, 0, Arithmetic::fp64);
  std::vector<GradientCheck> checks;
  if (exact.q.empty()) return checks;
  for (const int count : iterations) {
    const SolveGradient implicit = gradient(kind, GradientRoute::implicit, count, arithmetic),
                        unrolled = gradient(kind, GradientRoute::unrolled, count, arithmetic);
    checks.push_back({count, errors(implicit, exact), errors(unrolled, exact), errors(implicit, unrolled)});
  }
  return checks;
}

std::vector<double> solve_sequence(const KeySequence& sequence, SolverKind kind, int iterations,
                                   Arithmetic arithmetic) {
  const auto width = static_cast<std::size_t>(sequence.width);
  RowMajor H = RowMajor::Zero(sequence.width, sequence.width);
  std::vector<double> solutions;
  for (std::size_t t = 0; t < static_cast<std::size_t>(sequence.tokens); ++t) {
    const Row k(sequence.keys.data() + t * width, sequence.width);
    H += k * k.transpose();
    const RidgeProblem problem = problem_of(sequence, H, sequence.queries.data() + t * width);
    const std::vector<double> x = with_numbers_of(
        arithmetic, [&]<class Number>(Number) { return solution_in<Number>(kind, problem, iterations, arithmetic); });
    if (x.empty()) {
      solutions.resize(width * static_cast<std::size_t>(sequence.tokens), std::numeric_limits<double>::quiet_NaN());
      return solutions;
    }
    solutions.insert(solutions.end(), x.begin(), x.end());
  }
  return solutions;
}

SequenceGradient sequence_gradient(const KeySequence& sequence, SolverKind kind, GradientRoute route, int iterations,
                                   Arithmetic arithmetic, std::span<const double> upstream) {
  const auto width = static_cast<std::size_t>(sequence.width), tokens = static_cast<std::size_t>(sequence.tokens);
  const RowMajorView keys(sequence.keys.data(), sequence.tokens, sequence.width);
  RowMajor H = keys.transpose() * keys, dH = RowMajor::Zero(sequence.width, sequence.width);
  SequenceGradient gradient{std::vector<double>(tokens * width, 0.0), std::vector<double>(tokens * width, 0.0)};
  for (std::size_t t = tokens; t-- > 0;) {
    const Row k(sequence.keys.data() + t * width, sequence.width);
    const RidgeProblem problem = problem_of(sequence, H, sequence.queries.data() + t * width);
    const SolveGradient own = solve_gradient(kind, route, problem, sequence.strength,
                                             upstream.subspan(t * width, width), iterations, arithmetic);
    if (own.q.empty()) {
      std::ranges::fill(gradient.keys, std::numeric_limits<double>::quiet_NaN());
      return gradient;
    }
    std::ranges::copy(own.q, gradient.queries.begin() + static_cast<std::ptrdiff_t>(t * width));
    dH += RowMajorView(own.H.data(), sequence.width, sequence.width);
    Eigen::Map<Eigen::VectorXd>(gradient.keys.data() + t * width, sequence.width) = dH * k + dH.transpose() * k;
    H -= k * k.transpose();
  }
  return gradient;
}

}  // namespace afterglow
