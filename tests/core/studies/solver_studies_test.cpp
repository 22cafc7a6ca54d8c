// The studies of solvers: gradients of the network against differences of its loss, and what the paper's figures say.
#include "core/studies/solver_studies.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/random/random.h"
#include "core/studies/ridge_network.h"

namespace afterglow {
namespace {

const StudyProgress silent = [](double) {};

TEST(RidgeNetwork, GradientIsTheSlopeOfItsLoss) {
  RidgeNetwork network({2, 9, 2, 4, 11}, 5);
  for (const RidgeMethod& way :
       {RidgeMethod{SolverKind::cholesky, GradientRoute::implicit, 0, Arithmetic::fp64, 0.05},
        RidgeMethod{SolverKind::chebyshev, GradientRoute::unrolled, 3, Arithmetic::fp64, 0.05},
        RidgeMethod{SolverKind::conjugate_gradient, GradientRoute::unrolled, 2, Arithmetic::fp64, 0.05}}) {
    const std::vector<double> gradient = network.gradient(way);
    Random random(3);
    std::size_t first = 0;
    for (const Parameter& parameter : network.parameters().all()) {
      // Along a random direction of each weight.
      const std::vector<double> start = network.parameters().download(parameter.value);
      std::vector<double> up = start, down = start;
      double slope = 0;
      constexpr double h = 1e-6;
      for (std::size_t i = 0; i < start.size(); ++i) {
        const double direction = random.normal();
        slope += direction * gradient[first + i];
        up[i] += h * direction;
        down[i] -= h * direction;
      }
      network.parameters().upload(parameter, up);
      const double above = network.loss(way);
      network.parameters().upload(parameter, down);
      const double difference = (above - network.loss(way)) / (2 * h);
      network.parameters().upload(parameter, start);
      EXPECT_NEAR(slope, difference, 1e-6 * (1 + std::abs(difference)))
          << parameter.name << ", " << name_of(way.solver);
      first += start.size();
    }
    EXPECT_EQ(first, gradient.size());
  }
}

TEST(SolverStudies, ChebyshevsGradientsReachTheExactOnes) {
  StudySize size{1, 24, 2, 8, 2, 16, 60};
  for (const auto& curves : {layer_gradient_study(size, SolverKind::chebyshev, 0.05, Arithmetic::fp64, 3, silent),
                             network_gradient_study(size, SolverKind::chebyshev, 0.05, Arithmetic::fp64, 3, silent)}) {
    ASSERT_EQ(curves.size(), 2u);
    EXPECT_EQ(curves[0].name, "Chebyshev, implicit");
    EXPECT_TRUE(curves[1].is_dashed);
    for (const StudyCurve& curve : curves) {
      ASSERT_EQ(curve.x.back(), 60);
      for (std::size_t i = 1; i < curve.y.size(); ++i) EXPECT_LT(curve.y[i], curve.y[i - 1]);
      EXPECT_LT(curve.y.back(), 1e-6);
    }
  }
}

TEST(SolverStudies, StrongerRidgesConvergeFaster) {
  StudySize size{2, 40, 2, 8, 0, 0, 20};
  double before = 1e300;
  for (const double strength : {0.01, 0.02, 0.05, 0.1}) {
    const std::vector<double> worst =
        worst_residuals(size, SolverKind::chebyshev, strength, Arithmetic::fp64, 7, silent);
    ASSERT_EQ(worst.size(), 21u);
    EXPECT_LT(worst.back(), before);
    EXPECT_LE(worst.back(), residual_bound(SolverKind::chebyshev, strength, 1 + strength, 20) * (1 + 1e-9));
    before = worst.back();
  }
  EXPECT_EQ(worst_residuals(size, SolverKind::nesterov, 0.02, Arithmetic::bf16, 7, silent),
            worst_residuals(size, SolverKind::nesterov, 0.02, Arithmetic::bf16, 7, silent));
}

TEST(SolverStudies, ARidgeCostsRecallAndSparesTheIteration) {
  StudySize size;
  size.tokens = 24;
  const std::vector<StudyCurve> curves = strength_study(size, Arithmetic::fp32, 7, silent);
  ASSERT_EQ(curves.size(), 4u);
  const std::vector<double>&residual = curves[0].y, &exact = curves[1].y, &recall = curves[3].y;
  EXPECT_NEAR(curves[0].x.front(), 1e-3, 1e-12);
  EXPECT_NEAR(curves[0].x.back(), 1, 1e-12);
  for (std::size_t i = 1; i < exact.size(); ++i) EXPECT_GT(exact[i], exact[i - 1]) << "of the exact solution alone";
  EXPECT_LT(recall.front(), recall.back());
  EXPECT_NEAR(residual.back(), exact.back(), 1e-4) << "a strong ridge is solved";
  EXPECT_GT(residual.front(), 1.2 * exact.front()) << "a weak one is not, in so few steps";
}

// A linear state holds up to D random pairs exactly; of n > D it misses √(1 - D/n) of each value in the mean of
// squares.
TEST(SolverStudies, NoMemoryRecallsMoreThanTheExactOptimum) {
  StudySize size;
  size.batch = 8;
  const std::vector<StudyCurve> curves = capacity_study(size, 0.02, 7);
  ASSERT_EQ(curves.size(), 3u);
  const StudyCurve &gka = curves[0], &delta = curves[1], &optimum = curves[2];
  EXPECT_EQ(delta.name, "DeltaNet");
  EXPECT_TRUE(optimum.is_dashed);
  for (std::size_t i = 0; i < optimum.x.size(); ++i) {
    const double load = optimum.x[i];
    EXPECT_LT(optimum.y[i], gka.y[i]) << load;
    EXPECT_LT(gka.y[i], delta.y[i]) << load;
    if (load <= 1) {
      EXPECT_LT(optimum.y[i], 1e-3) << load;
    } else {
      EXPECT_NEAR(optimum.y[i], std::sqrt(1 - 1 / load), 0.03) << load;
    }
  }
}

TEST(SolverStudies, ChebyshevDividesByWhatItsBoundsSayAndConjugateGradientByAnything) {
  StudySize size;
  size.tokens = 48;
  const std::vector<StudyCurve> curves = divisor_study(size, Arithmetic::fp32, 7, silent);
  ASSERT_EQ(curves.size(), 4u);
  for (std::size_t i = 0; i < curves[0].x.size(); ++i) {
    const double kappa = curves[0].x[i], mu = 1 / (kappa - 1);
    for (const double w : omega_schedule(mu, 1 + mu, size.iterations)) {
      EXPECT_LE(w - 1, curves[2].y[i]);
      EXPECT_GE(w - 1, curves[3].y[i] - 1e-14);
    }
    if (kappa >= 10) {
      EXPECT_GT(curves[3].y[i], 0.25) << "remark 2";
    }
    EXPECT_GT(curves[0].y[i], curves[1].y[i]);
    EXPECT_LT(curves[1].y[i], 1e-3) << "κ " << kappa;
  }
}

}  // namespace
}  // namespace afterglow
