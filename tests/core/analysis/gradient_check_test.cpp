// Gradients of solves against finite differences, lemma 2 as a property, and convergence to the exact gradient.
#include "core/analysis/solvers/gradient_check.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/core/analysis/plain_matrix.h"

namespace afterglow {
namespace {

constexpr double strength = 0.05;

struct Case {
  std::vector<double> H, q, upstream;
  RidgeProblem problem() const { return bounded_problem(H, q, strength * frobenius_norm(H)); }
};

Case random_case(std::uint64_t seed, int n, int keys) {
  Random random(seed);
  PlainMatrix H(n, n);
  for (int t = 0; t < keys; ++t) {
    const PlainMatrix k = random_matrix(random, n, 1);
    H = H + (1 / length_of(k.values)) * (k * transposed(k));
  }
  return {H.values, random_matrix(random, n, 1).values, random_matrix(random, n, 1).values};
}

double answer(const Case& c, SolverKind kind, int iterations) {
  const std::vector<double> x = run_solver(kind, c.problem(), iterations, Arithmetic::fp64).solution;
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += c.upstream[i] * x[i];
  return sum;
}

class UnrolledGradient : public testing::TestWithParam<std::pair<SolverKind, int>> {};

TEST_P(UnrolledGradient, IsTheDerivativeOfTheTruncatedIteration) {
  const auto [kind, iterations] = GetParam();
  const Case c = random_case(3, 7, 12);
  const SolveGradient gradient =
      solve_gradient(kind, GradientRoute::unrolled, c.problem(), strength, c.upstream, iterations, Arithmetic::fp64);
  ASSERT_EQ(gradient.q.size(), 7u);
  constexpr double h = 1e-6;
  for (std::size_t i = 0; i < 7; ++i) {
    Case up = c, down = c;
    up.q[i] += h;
    down.q[i] -= h;
    EXPECT_NEAR(gradient.q[i], (answer(up, kind, iterations) - answer(down, kind, iterations)) / (2 * h), 1e-6);
    for (std::size_t j = 0; j <= i; ++j) {
      // H stays symmetric: both entries move.
      Case more = c, less = c;
      more.H[i * 7 + j] += h;
      less.H[i * 7 + j] -= h;
      if (i != j) more.H[j * 7 + i] += h, less.H[j * 7 + i] -= h;
      const double moved = (answer(more, kind, iterations) - answer(less, kind, iterations)) / (2 * h);
      const double own = i == j ? gradient.H[i * 7 + i] : gradient.H[i * 7 + j] + gradient.H[j * 7 + i];
      EXPECT_NEAR(own, moved, 1e-6 * (1 + std::abs(moved))) << i << ", " << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Iterations, UnrolledGradient,
                         testing::Values(std::pair{SolverKind::chebyshev, 0}, std::pair{SolverKind::chebyshev, 1},
                                         std::pair{SolverKind::chebyshev, 5}, std::pair{SolverKind::chebyshev, 12},
                                         std::pair{SolverKind::conjugate_gradient, 1},
                                         std::pair{SolverKind::conjugate_gradient, 3},
                                         std::pair{SolverKind::conjugate_gradient, 5},
                                         std::pair{SolverKind::cholesky, 0}));

TEST(GradientCheck, FindsTheQueryGradientsOfChebyshevEqualAtEveryIterationCount) {
  const Case c = random_case(5, 16, 30);
  const std::array counts{0, 1, 2, 5, 10, 20, 30, 60};
  const auto checks =
      gradient_check(SolverKind::chebyshev, c.problem(), strength, c.upstream, counts, Arithmetic::fp64);
  ASSERT_EQ(checks.size(), counts.size());
  for (const GradientCheck& check : checks) {
    EXPECT_LT(check.between.q, 1e-13) << check.iterations;  // lemma 2
    if (check.iterations <= 5) {
      EXPECT_GT(check.between.H, 1e-6);  // which does not hold for H
    }
  }
}

TEST(GradientCheck, SeesBothRoutesReachTheExactGradient) {
  const Case c = random_case(6, 16, 30);
  const std::array counts{5, 10, 20, 40, 80};
  const auto checks =
      gradient_check(SolverKind::chebyshev, c.problem(), strength, c.upstream, counts, Arithmetic::fp64);
  ASSERT_EQ(checks.size(), counts.size());
  for (std::size_t i = 1; i < checks.size(); ++i) {
    EXPECT_LT(checks[i].implicit.H, 0.5 * checks[i - 1].implicit.H);
    EXPECT_LT(checks[i].unrolled.H, 0.5 * checks[i - 1].unrolled.H);
  }
  EXPECT_LT(checks.back().implicit.H, 1e-9);
  EXPECT_LT(checks.back().unrolled.H, 1e-9);
  const std::array sixteen{16};
  const auto conjugate =
      gradient_check(SolverKind::conjugate_gradient, c.problem(), strength, c.upstream, sixteen, Arithmetic::fp64);
  EXPECT_LT(conjugate.front().implicit.H, 1e-8);  // ends after n steps
}

TEST(GradientCheck, IsEmptyForWhatCannotBeDifferentiated) {
  const Case c = random_case(7, 4, 8);
  EXPECT_TRUE(solve_gradient(SolverKind::nesterov, GradientRoute::unrolled, c.problem(), strength, c.upstream, 3,
                             Arithmetic::fp64)
                  .q.empty());
  EXPECT_TRUE(solve_gradient(SolverKind::chebyshev, GradientRoute::implicit, c.problem(), strength,
                             std::span(c.upstream).first(2), 3, Arithmetic::fp64)
                  .q.empty());
}

TEST(SequenceGradient, IsTheDerivativeOfTheWholeSequence) {
  constexpr int T = 6, D = 4;
  Random random(9);
  const PlainMatrix keys = random_matrix(random, T, D), queries = random_matrix(random, T, D),
                    upstream = random_matrix(random, T, D);
  const auto loss = [&](const PlainMatrix& k, const PlainMatrix& q, SolverKind kind) {
    const std::vector<double> x = solve_sequence({T, D, k.values, q.values, strength}, kind, 4, Arithmetic::fp64);
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * upstream.values[i];
    return sum;
  };
  for (const SolverKind kind : {SolverKind::chebyshev, SolverKind::cholesky}) {
    const SequenceGradient gradient = sequence_gradient({T, D, keys.values, queries.values, strength}, kind,
                                                        GradientRoute::unrolled, 4, Arithmetic::fp64, upstream.values);
    constexpr double h = 1e-6;
    for (std::size_t i = 0; i < T * D; ++i) {
      PlainMatrix up = keys, down = keys;
      up.values[i] += h;
      down.values[i] -= h;
      const double of_key = (loss(up, queries, kind) - loss(down, queries, kind)) / (2 * h);
      EXPECT_NEAR(gradient.keys[i], of_key, 1e-5 * (1 + std::abs(of_key)));
      up = down = queries;
      up.values[i] += h;
      down.values[i] -= h;
      EXPECT_NEAR(gradient.queries[i], (loss(keys, up, kind) - loss(keys, down, kind)) / (2 * h), 1e-6);
    }
  }
}

}  // namespace
}  // namespace afterglow
