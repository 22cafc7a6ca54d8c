// Gradient bounds over depth: chains of explicit Jacobians, a stack of Koopman MLPs, and where the bounds are attained.
#include "core/analysis/depth_bounds.h"

#include <gtest/gtest.h>

#include "tests/core/analysis/plain_matrix.h"

namespace afterglow {
namespace {

double silu_slope(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return s * (1 + x * (1 - s));
}

/// Norms of g_0 .. g_m for the Jacobians J_1 .. J_m (lowest first).
std::vector<double> chained(const std::vector<PlainMatrix>& jacobians, PlainMatrix g) {
  std::vector<double> norms(jacobians.size() + 1, length_of(g.values));
  for (std::size_t l = jacobians.size(); l-- > 0;) {
    g = transposed(jacobians[l]) * g;
    norms[l] = length_of(g.values);
  }
  return norms;
}

TEST(DepthBounds, SiluSlopeBoundIsTheMaximum) {
  double largest = 0;
  for (double x = -20; x < 20; x += 1e-4) largest = std::max(largest, std::abs(silu_slope(x)));
  EXPECT_LE(largest, silu_slope_bound);
  EXPECT_NEAR(largest, silu_slope_bound, 1e-9);
}

TEST(DepthBounds, HoldForChainsOfBranchesAndOfResidualLayers) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Random random(seed);
    std::vector<PlainMatrix> branches, layers;
    std::vector<double> norms;
    for (int l = 0; l < 6; ++l) {
      branches.push_back((seed % 2 ? 0.3 : 0.1) * random_matrix(random, 5, 5));
      layers.push_back(identity(5) + branches.back());
      norms.push_back(plain_norm(branches.back()));
    }
    const PlainMatrix g = random_matrix(random, 5, 1);
    const DepthBounds bounds = depth_bounds(norms, length_of(g.values));
    const auto alone = chained(branches, g), residual = chained(layers, g);
    ASSERT_EQ(bounds.branches.size(), 7u);
    for (std::size_t l = 0; l < 7; ++l) {
      EXPECT_LE(alone[l], bounds.branches[l] * (1 + 1e-12));
      EXPECT_LE(residual[l], bounds.residual[l] * (1 + 1e-12));
      EXPECT_GE(residual[l], bounds.residual_floor[l] * (1 - 1e-12));
    }
    EXPECT_EQ(bounds.residual[6], length_of(g.values));
  }
}

TEST(DepthBounds, AreAttainedByRotationsAndByStretchings) {
  Random random(4);
  const PlainMatrix rotation = 0.7 * random_orthogonal(random, 3), stretch = 0.7 * identity(3);
  const PlainMatrix g = random_matrix(random, 3, 1);
  const DepthBounds bounds = depth_bounds(std::vector<double>(4, 0.7), length_of(g.values));
  EXPECT_NEAR(chained(std::vector(4, rotation), g)[0], bounds.branches[0], 1e-12);
  EXPECT_NEAR(chained(std::vector(4, identity(3) + stretch), g)[0], bounds.residual[0], 1e-12);
  EXPECT_NEAR(chained(std::vector(4, identity(3) - stretch), g)[0], bounds.residual_floor[0], 1e-12);
}

TEST(DepthBounds, ThePrintedTheoremIsNoBoundForAResidualModel) {
  const std::vector<PlainMatrix> layers(8, 1.1 * identity(2));
  const auto measured = chained(layers, PlainMatrix(2, 1, std::vector<double>{1, 0}));
  const DepthBounds bounds = depth_bounds(std::vector<double>(8, 0.1), 1.0);
  EXPECT_GT(measured[0], 1e8 * bounds.branches[0]) << "the residual passes what the branches hold back";
  EXPECT_NEAR(measured[0], bounds.residual[0], 1e-12);
}

/// The Jacobian of W_read R silu(W_lift h), with R of damped rotations; and W_read, W_lift.
struct KoopmanMlpLayer {
  PlainMatrix readout, lift, turn;
  KoopmanMlpLayer(Random& random, int d, int dk)
      : readout(random_matrix(random, d, dk)), lift(random_matrix(random, dk, d)), turn(dk, dk) {
    for (int i = 0; i < dk; i += 2) {
      const double gamma = 0.9 * std::cos(i), omega = 0.9 * std::sin(i);
      turn(i, i) = turn(i + 1, i + 1) = gamma;
      turn(i, i + 1) = omega;
      turn(i + 1, i) = -omega;
    }
  }
  PlainMatrix jacobian(const PlainMatrix& h) const {
    PlainMatrix slopes(lift.rows, lift.rows);
    const PlainMatrix a = lift * h;
    for (int i = 0; i < lift.rows; ++i) slopes(i, i) = silu_slope(a(i, 0));
    return readout * turn * slopes * lift;
  }
};

TEST(KoopmanMlpBound, HoldsForEveryInputAndIsAttained) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const KoopmanMlpLayer layer(random, 3, 8);
    const double paper = koopman_mlp_bound(layer.readout.values, layer.lift.values, 3, 8);
    const double ours = koopman_mlp_bound(layer.readout.values, layer.lift.values, 3, 8, 0.9);
    EXPECT_NEAR(ours, 0.9 * paper, 1e-12 * paper);
    for (int i = 0; i < 10; ++i) EXPECT_LE(plain_norm(layer.jacobian(3.0 * random_matrix(random, 3, 1))), ours);
  }
  const std::vector<double> W = {1, 0, 0, 1};
  EXPECT_NEAR(koopman_mlp_bound(W, W, 2, 2), silu_slope(2.39935728), 1e-12);
}

TEST(RmsNormBound, IsTheNormOfTheJacobianUpToTheRadialPart) {
  Random random(6);
  for (int n : {2, 5, 37}) {
    const PlainMatrix x = random_matrix(random, n, 1), w = random_matrix(random, n, 1);
    double squares = 0;
    for (const double value : x.values) squares += value * value;
    const double rms = std::sqrt(squares / n + 1e-5);
    PlainMatrix J(n, n);
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) J(i, j) = w(i, 0) / rms * ((i == j) - x(i, 0) * x(j, 0) / (n * rms * rms));
    }
    const double bound = rms_norm_bound(w.values, x.values, 1e-5), norm = plain_norm(J);
    EXPECT_LE(norm, bound * (1 + 1e-12));
    EXPECT_GT(norm, n > 5 ? 0.8 * bound : 0.0);
  }
}

TEST(QueryPathBound, HoldsForTheProductOfProjectionsAndHeads) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const int d = 5, r = 2, P = 3;
    const PlainMatrix out = random_matrix(random, d, 2 * P), query = random_matrix(random, 2 * r, d);
    PlainMatrix heads(2 * P, 2 * r);
    std::vector<double> norms;
    for (int h = 0; h < 2; ++h) {
      const PlainMatrix J = random_matrix(random, P, r);
      norms.push_back(plain_norm(J));
      for (int p = 0; p < P; ++p) {
        for (int i = 0; i < r; ++i) heads(h * P + p, h * r + i) = J(p, i);
      }
    }
    const double bound = query_path_bound(out.values, query.values, d, norms);
    EXPECT_LE(plain_norm(out * heads * query), bound * (1 + 1e-9));
    EXPECT_NEAR(bound, plain_norm(out) * plain_norm(heads) * plain_norm(query), 1e-9 * bound);
  }
  const std::vector<double> eye{1, 0, 0, 1};
  EXPECT_NEAR(query_path_bound(eye, eye, 2, std::vector<double>{0.5, 3}), 3, 1e-14);
  EXPECT_TRUE(std::isnan(query_path_bound(eye, eye, 2, {})));
  EXPECT_TRUE(std::isnan(query_path_bound(eye, eye, 3, std::vector<double>{1})));
  EXPECT_TRUE(std::isnan(query_path_bound(eye, eye, 2, std::vector<double>{NAN})));
}

TEST(DepthBounds, AwkwardInput) {
  EXPECT_EQ(depth_bounds({}, 2.0).branches, std::vector<double>{2.0});
  const DepthBounds broken = depth_bounds(std::vector<double>{2, NAN, 3}, 1.0);
  EXPECT_EQ(broken.branches[2], 3.0);
  EXPECT_TRUE(std::isnan(broken.branches[1]) && std::isnan(broken.branches[0]));
  EXPECT_TRUE(std::isnan(broken.residual[0]) && std::isnan(broken.residual_floor[0]));
  EXPECT_TRUE(std::isnan(depth_bounds(std::vector<double>{-1}, 1.0).branches[0]));
  EXPECT_TRUE(std::isinf(depth_bounds(std::vector<double>{1e200, 1e200}, 1.0).branches[0]));
  EXPECT_EQ(depth_bounds(std::vector<double>{INFINITY}, 1.0).residual_floor[0], 0.0);
  EXPECT_TRUE(std::isnan(koopman_mlp_bound(std::vector<double>{1}, std::vector<double>{1}, 1, 2)));
  EXPECT_TRUE(std::isnan(rms_norm_bound({}, {}, 1e-5)));
  EXPECT_TRUE(std::isnan(rms_norm_bound(std::vector<double>{NAN}, std::vector<double>{1}, 1e-5)));
}

}  // namespace
}  // namespace afterglow
