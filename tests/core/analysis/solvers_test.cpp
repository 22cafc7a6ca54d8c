// Solvers against closed forms, their theory as properties, and the arithmetics.
#include "core/analysis/solvers/solvers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/core/analysis/plain_matrix.h"

namespace afterglow {
namespace {

/// H + λI with the given eigenvalues, H turned at random, bounds at the ends of the spectrum.
RidgeProblem turned(std::uint64_t seed, std::vector<double> eigenvalues, double ridge) {
  Random random(seed);
  RidgeProblem problem;
  problem.ridge = ridge;
  problem.mu = *std::min_element(eigenvalues.begin(), eigenvalues.end());
  problem.L = *std::max_element(eigenvalues.begin(), eigenvalues.end());
  for (double& value : eigenvalues) value -= ridge;
  problem.H = with_spectrum(random, eigenvalues).values;
  for (std::size_t i = 0; i < eigenvalues.size(); ++i) problem.q.push_back(random.normal());
  const double length = length_of(problem.q);
  for (double& value : problem.q) value /= length;
  return problem;
}

RidgeProblem diagonal(const std::vector<double>& eigenvalues, std::vector<double> q) {
  const std::size_t n = eigenvalues.size();
  RidgeProblem problem{std::vector<double>(n * n, 0.0), std::move(q), 0, eigenvalues.front(), eigenvalues.back()};
  for (std::size_t i = 0; i < n; ++i) problem.H[i * n + i] = eigenvalues[i];
  return problem;
}

std::vector<double> geometric(int n, double low, double high) {
  std::vector<double> values;
  for (int i = 0; i < n; ++i) values.push_back(low * std::pow(high / low, static_cast<double>(i) / (n - 1)));
  return values;
}

std::vector<double> exact_solution(const RidgeProblem& problem) {
  PlainMatrix A(problem.size(), problem.size(), problem.H);
  for (int i = 0; i < problem.size(); ++i) A(i, i) += problem.ridge;
  return (inverse_of(A) * PlainMatrix(problem.size(), 1, problem.q)).values;
}

TEST(Rounding, KeepsTheBitsOfEachArithmetic) {
  EXPECT_EQ(rounded(1.00390625f, Arithmetic::bf16), 1.0f);             // 1 + 2^-8: a tie, to the even neighbour
  EXPECT_EQ(rounded(1.01171875f, Arithmetic::bf16), 1.015625f);        // 1 + 3 2^-8: a tie, to the even neighbour above
  EXPECT_EQ(rounded(1.00390637f, Arithmetic::bf16), 1.0078125f);       // just above the tie
  EXPECT_EQ(rounded(1.00048828125f, Arithmetic::tf32), 1.0f);          // 1 + 2^-11: a tie
  EXPECT_EQ(rounded(1.0009765625f, Arithmetic::tf32), 1.0009765625f);  // 1 + 2^-10 is a tf32 number
  EXPECT_EQ(rounded(-3.14159274f, Arithmetic::bf16), -3.140625f);
  EXPECT_EQ(rounded(0.1f, Arithmetic::fp32), 0.1f);
  EXPECT_TRUE(std::isnan(rounded(std::nanf(""), Arithmetic::bf16)));
  EXPECT_EQ(rounded(INFINITY, Arithmetic::tf32), INFINITY);
  Random random(3);
  for (int i = 0; i < 1000; ++i) {
    const auto x = static_cast<float>(random.normal());
    for (const Arithmetic arithmetic : {Arithmetic::bf16, Arithmetic::tf32}) {
      const float once = rounded(x, arithmetic);
      EXPECT_EQ(rounded(once, arithmetic), once);
      EXPECT_LE(std::abs(once - x), std::abs(x) / inverse_unit(arithmetic));
    }
  }
}

TEST(Solvers, SolveTwoByTwoAsByHand) {
  // [2 1; 1 3] x = [3; 5] has the solution [4/5; 7/5].
  const RidgeProblem problem = bounded_problem({1.5, 1, 1, 2.5}, {3, 5}, 0.5);
  EXPECT_DOUBLE_EQ(problem.mu, 0.5);
  EXPECT_DOUBLE_EQ(problem.L, 0.5 + std::sqrt(10.5));
  for (const SolverKind kind : all_solvers) {
    const SolverRun run = run_solver(kind, problem, 400, Arithmetic::fp64);
    EXPECT_NEAR(run.solution[0], 0.8, 1e-12) << name_of(kind);
    EXPECT_NEAR(run.solution[1], 1.4, 1e-12) << name_of(kind);
    EXPECT_LT(run.residuals.back(), 1e-12) << name_of(kind);
  }
  EXPECT_LT(run_solver(SolverKind::conjugate_gradient, problem, 2, Arithmetic::fp64).residuals.back(), 1e-14);
}

TEST(Solvers, FollowTheirPolynomialsOnADiagonal) {
  // On an eigenvalue the residual is a known polynomial: Chebyshev's T_k, (1 - step λ)^k for gradient descent.
  const std::vector<double> eigenvalues = geometric(9, 0.05, 1.0);
  const double mu = eigenvalues.front(), L = eigenvalues.back(), rho = (L - mu) / (L + mu);
  for (std::size_t e = 0; e < eigenvalues.size(); ++e) {
    std::vector<double> q(eigenvalues.size(), 0.0);
    q[e] = 1;
    const RidgeProblem problem = diagonal(eigenvalues, q);
    const auto chebyshev = run_solver(SolverKind::chebyshev, problem, 12, Arithmetic::fp64).residuals;
    const auto descent = run_solver(SolverKind::gradient_descent, problem, 12, Arithmetic::fp64).residuals;
    ASSERT_EQ(chebyshev.size(), 13u);
    for (int i = 0; i <= 12; ++i) {
      const double at = std::clamp((L + mu - 2 * eigenvalues[e]) / (L - mu), -1.0, 1.0);
      const double expected = std::abs(std::cos((i + 1) * std::acos(at))) / std::cosh((i + 1) * std::acosh(1 / rho));
      EXPECT_NEAR(chebyshev[static_cast<std::size_t>(i)], expected, 1e-12) << e << ", " << i;
      EXPECT_NEAR(descent[static_cast<std::size_t>(i)], std::pow(std::abs(1 - 2 * eigenvalues[e] / (L + mu)), i + 1),
                  1e-12);
    }
  }
}

TEST(Solvers, StayBelowTheirBoundsWhichTheEndsOfTheSpectrumAttain) {
  for (const double kappa : {1.0, 1.5, 9.0, 51.0, 1000.0}) {
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
      Random random(seed);
      std::vector<double> eigenvalues{1 / kappa, 1};
      for (int i = 0; i < 15; ++i) eigenvalues.push_back(1 / kappa + (1 - 1 / kappa) * random.uniform());
      const RidgeProblem problem = turned(seed, eigenvalues, 0.5 / kappa);
      for (const SolverKind kind : {SolverKind::chebyshev, SolverKind::gradient_descent, SolverKind::nesterov,
                                    SolverKind::conjugate_gradient}) {
        const SolverRun run = run_solver(kind, problem, 30, Arithmetic::fp64);
        ASSERT_EQ(run.residuals.size(), 31u);
        for (int i = 0; i <= 30; ++i)
          EXPECT_LE(run.residuals[static_cast<std::size_t>(i)],
                    residual_bound(kind, problem.mu, problem.L, i) * (1 + 1e-9) + 1e-13)
              << name_of(kind) << ", κ " << kappa << ", i " << i;
      }
    }
    if (kappa == 1) continue;
    const RidgeProblem lowest = diagonal({1 / kappa, 1}, {1, 0}), highest = diagonal({1 / kappa, 1}, {0, 1});
    for (int i = 0; i <= 20; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const auto near_bound = [&](SolverKind kind, const RidgeProblem& problem) {
        const double bound = residual_bound(kind, 1 / kappa, 1, i);
        EXPECT_NEAR(run_solver(kind, problem, 20, Arithmetic::fp64).residuals[at], bound, 1e-9 * bound + 1e-14)
            << name_of(kind);
      };
      near_bound(SolverKind::chebyshev, lowest);
      near_bound(SolverKind::chebyshev, highest);
      near_bound(SolverKind::gradient_descent, lowest);
      near_bound(SolverKind::nesterov, lowest);
      const double sigma = (std::sqrt(kappa) - 1) / (std::sqrt(kappa) + 1);
      EXPECT_LE(residual_bound(SolverKind::chebyshev, 1 / kappa, 1, i), 2 * std::pow(sigma, i + 1));
    }
  }
}

double energy_error(const RidgeProblem& problem, const std::vector<double>& x, const std::vector<double>& solution) {
  double sum = 0;
  const int n = problem.size();
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      const double a = problem.H[static_cast<std::size_t>(i * n + j)] + (i == j ? problem.ridge : 0);
      sum += (x[static_cast<std::size_t>(i)] - solution[static_cast<std::size_t>(i)]) * a *
             (x[static_cast<std::size_t>(j)] - solution[static_cast<std::size_t>(j)]);
    }
  }
  return sum;
}

TEST(Solvers, FallWhereTheorySaysSo) {
  const RidgeProblem problem = turned(5, geometric(24, 0.02, 1.0), 0.01);
  const auto residuals = run_solver(SolverKind::gradient_descent, problem, 60, Arithmetic::fp64).residuals;
  for (std::size_t i = 1; i < residuals.size(); ++i) EXPECT_LT(residuals[i], residuals[i - 1]);
  // Conjugate gradient lowers the error in the energy norm with every step, below any other method's, and ends.
  const std::vector<double> solution = exact_solution(problem);
  double before = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= 20; ++i) {
    const double error = energy_error(
        problem, run_solver(SolverKind::conjugate_gradient, problem, i, Arithmetic::fp64).solution, solution);
    EXPECT_LT(error, before);
    before = error;
    if (i == 0) continue;
    for (const SolverKind other : {SolverKind::chebyshev, SolverKind::gradient_descent, SolverKind::nesterov}) {
      // Their iterate i - 1 is a polynomial of the same degree as conjugate gradient's i.
      EXPECT_LE(error, energy_error(problem, run_solver(other, problem, i - 1, Arithmetic::fp64).solution, solution) *
                           (1 + 1e-9));
    }
  }
  EXPECT_LT(run_solver(SolverKind::conjugate_gradient, problem, 48, Arithmetic::fp64).residuals.back(), 1e-10);
}

TEST(Solvers, EndAtTheFloorOfTheirArithmetic) {
  const RidgeProblem problem = turned(8, geometric(20, 0.1, 1.0), 0.05);
  for (const SolverKind kind : all_solvers) {
    double finer = 0;
    for (const Arithmetic arithmetic : {Arithmetic::fp64, Arithmetic::fp32, Arithmetic::tf32, Arithmetic::bf16}) {
      const double rest = run_solver(kind, problem, 200, arithmetic).residuals.back();
      EXPECT_GT(rest, finer) << name_of(kind) << " in " << name_of(arithmetic);
      EXPECT_LT(rest, 40 / inverse_unit(arithmetic)) << name_of(kind) << " in " << name_of(arithmetic);
      finer = rest;
    }
  }
}

TEST(Solvers, CholeskyBreaksInLowPrecisionBeyondItsLine) {
  const RidgeProblem hard = turned(4, geometric(16, 1e-5, 1.0), 1e-6);
  EXPECT_TRUE(run_solver(SolverKind::cholesky, hard, 0, Arithmetic::bf16).solution.empty());
  EXPECT_TRUE(std::isnan(run_solver(SolverKind::cholesky, hard, 0, Arithmetic::bf16).residuals.front()));
  EXPECT_LT(run_solver(SolverKind::cholesky, hard, 0, Arithmetic::fp64).residuals.front(), 1e-9);
}

// Vectors and sums in bf16 lose what float32 sums of bf16 operands keep.
TEST(Solvers, WholeBf16EndsAboveBf16) {
  WholeBf16 sum = 256;
  sum += 1;
  EXPECT_EQ(sum, 256) << "the neighbour is 258";
  EXPECT_EQ(WholeBf16(0.1) * WholeBf16(0.1), static_cast<double>(rounded(0.1f, Arithmetic::bf16)) * WholeBf16(0.1));
  double whole = 0, operands = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const RidgeProblem problem = turned(seed, geometric(32, 0.02, 1), 0.02);
    const auto last = [&](Arithmetic arithmetic) {
      return run_solver(SolverKind::conjugate_gradient, problem, 40, arithmetic).residuals.back();
    };
    whole += last(Arithmetic::whole_bf16);
    operands += last(Arithmetic::bf16);
  }
  EXPECT_GT(whole, 1.5 * operands);
  EXPECT_LT(whole, 8) << "the residuals are still smaller than the queries";
}

TEST(Solvers, RefuseWhatIsNoProblem) {
  RidgeProblem problem = bounded_problem({1, 0, 0, 1}, {1, 1}, 0.1);
  EXPECT_TRUE(is_solvable(problem));
  problem.H[1] = std::nan("");
  EXPECT_TRUE(run_solver(SolverKind::chebyshev, problem, 4, Arithmetic::fp64).residuals.empty());
  EXPECT_TRUE(ridge_eigenvalues(problem).empty());
  EXPECT_FALSE(is_solvable(bounded_problem({1, 0, 0, 1}, {1, 1}, 0)));
  EXPECT_FALSE(is_solvable(bounded_problem({1, 0, 0}, {1, 1}, 0.1)));
  EXPECT_FALSE(is_solvable({}));
  EXPECT_TRUE(reverse_chebyshev({}, 4, Arithmetic::fp32).iterate_error.empty());
}

TEST(WeightSchedule, FallsToItsLimitWithinTheLemmas) {
  for (const double kappa : {1.0, 1.01, 2.0, 10.0, 51.0, 1e4}) {
    const double mu = 0.3, L = mu * kappa;
    const std::vector<double> omega = omega_schedule(mu, L, 40);
    const double limit = omega_limit(mu, L);
    EXPECT_EQ(omega[0], 2);
    EXPECT_GE(limit, 1);
    const double rho = (L - mu) / (L + mu), sigma = (std::sqrt(kappa) - 1) / (std::sqrt(kappa) + 1);
    EXPECT_NEAR(limit - 1, sigma * sigma, 1e-12);
    for (int i = 0; i <= 40; ++i) {
      const double w = omega[static_cast<std::size_t>(i)];
      EXPECT_GE(w, limit - 1e-14);
      EXPECT_LE(w, i > 0 ? omega[static_cast<std::size_t>(i - 1)] + 1e-15 : 2);
      EXPECT_LE(w, omega_bound(mu, L, i) + 1e-14) << "κ " << kappa << ", i " << i;
      EXPECT_GE(4 - rho * rho * w, 2);
      EXPECT_LE(4 - rho * rho * w, 4);
    }
    if (rho > 0) {
      EXPECT_NEAR(4 / (4 - rho * rho * limit), limit, 1e-13);  // a fixed point
    }
  }
  // Remark 1's numbers, κ = 51.
  const double R = (omega_bound(0.02, 1.02, 1) - omega_limit(0.02, 1.02)) / (2 - omega_limit(0.02, 1.02));
  EXPECT_NEAR(R, 0.7253, 5e-5);
}

TEST(Reversal, RecoversTheIteratesAndEnlargesErrorsAsFastAsItMay) {
  const RidgeProblem problem = turned(6, geometric(32, 0.02, 1.02), 0.02);
  const ChebyshevReversal fine = reverse_chebyshev(problem, 30, Arithmetic::fp64);
  const ChebyshevReversal coarse = reverse_chebyshev(problem, 30, Arithmetic::fp32);
  ASSERT_EQ(fine.iterate_error.size(), 31u);
  const double growth = 1 / std::sqrt(omega_limit(problem.mu, problem.L) - 1);  // 1/σ, the declaration's
  const double weight_growth = growth * growth;
  for (const ChebyshevReversal* way : {&fine, &coarse}) {
    const double u = 1 / inverse_unit(way == &fine ? Arithmetic::fp64 : Arithmetic::fp32);
    for (int i = 0; i <= 28; ++i) {
      const auto at = static_cast<std::size_t>(i);
      EXPECT_LE(way->kept_weights[at], 10 * u * (30 - i) * std::pow(growth, 30 - i)) << i;
      EXPECT_LE(way->omega_error[at], 4 * u * (30 - i) * std::pow(weight_growth, 30 - i)) << i;
    }
    EXPECT_GT(way->iterate_error[0], 10 * way->kept_weights[0]);  // the weights are what goes wrong first
  }
  // Exact in the limit, useless in float32: the backward pass is no cure for a long iteration.
  EXPECT_LT(fine.iterate_error[0], 1e-6);
  EXPECT_LT(coarse.kept_weights[0], 0.1);
  EXPECT_GT(coarse.iterate_error[0], 1);
}

TEST(Conditioning, StaysBelowItsBoundWithAdaptiveRegularisation) {
  Random random(11);
  for (const double strength : {0.01, 0.02, 0.1, 1.0}) {
    PlainMatrix H(12, 12);
    for (int t = 0; t < 40; ++t) {
      const PlainMatrix k = random_matrix(random, 12, 1);
      H = 0.93 * H + (1 / length_of(k.values) / length_of(k.values)) * (k * transposed(k));
      const double ridge = strength * frobenius_norm(H.values);
      const std::vector<double> values = ridge_eigenvalues(bounded_problem(H.values, k.values, ridge));
      ASSERT_EQ(values.size(), 12u);
      EXPECT_LE(values.back() / values.front(), kappa_bound(strength) * (1 + 1e-9));
      if (t == 0) {
        EXPECT_NEAR(values.back() / values.front(), kappa_bound(strength), 1e-6);  // one key attains it
      }
    }
  }
}

TEST(MemoryHorizon, CountsTheTokensOfAConstantGate) {
  const std::vector<double> decay(50, -0.1);
  const std::vector<double> e = memory_horizon(decay, std::exp(-1.0) * (1 + 1e-12)),
                            hundredth = memory_horizon(decay, 0.01);
  ASSERT_EQ(e.size(), 50u);
  EXPECT_EQ(e[0], 1);  // all there was
  EXPECT_EQ(e[49], 10);
  EXPECT_EQ(hundredth[49], 47);  // ln 100 = 4.605
  EXPECT_EQ(memory_horizon(std::vector<double>(7, 0.0), 0.5), (std::vector<double>{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(memory_horizon(std::vector<double>{-9, -9, 0, 0}, 0.5), (std::vector<double>{1, 1, 2, 3}));
  EXPECT_TRUE(memory_horizon({}, 0.5).empty());
}

// x_i = x_{i-1} + α r_{i-1} + m_i (x_{i-1} - x_{i-2}): so m_i takes the step back.
TEST(Reversal, DivisorsTakeStepsBack) {
  const RidgeProblem problem = turned(6, geometric(12, 0.05, 1.05), 0.05);
  for (const SolverKind kind : {SolverKind::chebyshev, SolverKind::conjugate_gradient}) {
    constexpr int steps = 8;
    const std::vector<double> divisors = reversal_divisors(kind, problem, steps, Arithmetic::fp64);
    ASSERT_EQ(divisors.size(), steps - 1u) << name_of(kind);
    std::vector<std::vector<double>> x;
    for (int i = 0; i <= steps; ++i) x.push_back(run_solver(kind, problem, i, Arithmetic::fp64).solution);
    for (std::size_t i = 2; i < x.size(); ++i) {
      // What is left of the step without its momentum points along the residual r_{i-1}.
      const std::size_t n = problem.q.size();
      double along = 0, square = 0, rest = 0;
      std::vector<double> r(n), step(n);
      for (std::size_t a = 0; a < n; ++a) {
        r[a] = problem.q[a] - problem.ridge * x[i - 1][a];
        for (std::size_t b = 0; b < n; ++b) r[a] -= problem.H[a * n + b] * x[i - 1][b];
        step[a] = x[i][a] - x[i - 1][a] - divisors[i - 2] * (x[i - 1][a] - x[i - 2][a]);
        along += step[a] * r[a];
        square += r[a] * r[a];
      }
      for (std::size_t a = 0; a < n; ++a) rest += std::pow(step[a] - along / square * r[a], 2);
      EXPECT_LT(std::sqrt(rest), 1e-10 * std::sqrt(along * along / square)) << name_of(kind) << ", step " << i;
    }
  }
  EXPECT_TRUE(reversal_divisors(SolverKind::nesterov, problem, 8, Arithmetic::fp64).empty());
  EXPECT_TRUE(reversal_divisors(SolverKind::chebyshev, {}, 8, Arithmetic::fp64).empty());
}

}  // namespace
}  // namespace afterglow
