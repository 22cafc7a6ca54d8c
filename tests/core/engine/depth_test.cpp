// The gradient over depth: branch by branch it is the gradient of the whole pass, and it stays within its bounds.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "core/analysis/depth_bounds.h"
#include "core/engine/observation/depth_view.h"
#include "core/engine/probing/depth_measure.h"
#include "core/engine/session/analysed_run.h"
#include "core/layers/host_values.h"
#include "core/ops/ops.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

struct DepthTest : testing::Test {
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  Trainer trainer{small_recipe(), *backend, DType::f64};
  Arena arena{*backend};
  Tape tape{*backend, arena};
  Example example;
  DepthTest() {
    for (int i = 0; i < 5; ++i) trainer.step();
    example = trainer.task().example(trainer.seed(), 0, Split::held_out);
  }

  Tensor upload(DType dtype, const void* values) {
    const Tensor tensor = tape.scratch({1, static_cast<std::int64_t>(example.tokens.size())}, dtype);
    backend->upload(tensor, values);
    return tensor;
  }
  /// |∂L/∂h_0| of one recorded pass through all branches.
  double gradient_at_embedding() {
    Model& model = trainer.model();
    tape.begin(false);
    const std::vector<double> x = to_host(*backend, model.embed(tape, upload(DType::i32, example.tokens.data())).value);
    tape.begin(true);
    const Var in = tape.input(
        to_device(tape, {1, static_cast<std::int64_t>(example.tokens.size()), model.width()}, DType::f64, x));
    const std::size_t branches = model.branches().size();
    const Var top = model.forward_branches(tape, in, upload(DType::u8, example.context.data()), 0, branches);
    const Var logits = model.forward_with(tape, top, branches, [](std::size_t, const Var& v) { return v; });
    const Var loss = cross_entropy(tape, logits, upload(DType::i32, example.targets.data())).loss;
    const Tensor one = tape.scratch(loss.shape(), DType::f64);
    backend->fill(one, 1.0);
    tape.backward(loss, one);
    const std::vector<double> g = to_host(*backend, tape.gradient_of(in));
    return std::sqrt(std::inner_product(g.begin(), g.end(), g.begin(), 0.0));
  }
};

TEST_F(DepthTest, BranchByBranchIsTheWholePass) {
  const DepthView view = measure_depth(trainer, tape, example);
  ASSERT_EQ(view.gradient.size(), trainer.model().branches().size() + 1);
  EXPECT_EQ(view.step, 5);
  EXPECT_NEAR(view.gradient.front(), gradient_at_embedding(), 1e-10 * view.gradient.front());
}

TEST_F(DepthTest, StaysWithinItsBounds) {
  const DepthView view = measure_depth(trainer, tape, example);
  ASSERT_EQ(view.residual_bound.size(), view.gradient.size());
  ASSERT_EQ(view.layers.size() + 1, view.gradient.size());
  for (std::size_t l = 0; l < view.gradient.size(); ++l) {
    EXPECT_LE(view.gradient[l], view.residual_bound[l] * (1 + 1e-9)) << l;
    EXPECT_GE(view.gradient[l], view.residual_floor[l] * (1 - 1e-9)) << l;
  }
  for (const int layer : view.layers) EXPECT_GE(trainer.parts()[static_cast<std::size_t>(layer)].branch, 0);
}

TEST_F(DepthTest, AKoopmanMlpStaysBelowItsClosedForm) {
  const DepthView view = measure_depth(trainer, tape, example);
  ASSERT_EQ(view.branch_bounds.size(), 4u);
  for (const std::size_t other : {0, 1, 2}) EXPECT_TRUE(std::isnan(view.branch_bounds[other])) << other;
  EXPECT_LE(view.branch_norms[3], view.branch_bounds[3]);

  // Once more from the parameters: what comes in, its smallest root mean square, and the three factors of J.8.
  Model& model = trainer.model();
  tape.begin(false);
  const Var in = model.embed(tape, upload(DType::i32, example.tokens.data()));
  const std::vector<double> x =
      to_host(*backend, model.forward_branches(tape, in, upload(DType::u8, example.context.data()), 0, 3).value);
  const Branch& mlp = model.branches()[3];
  const auto parameter = [&](const char* name) {
    return trainer.parameters().download(trainer.parameters().find(mlp.scope + name)->value);
  };
  const std::vector<double> gamma = parameter(".gamma"), omega = parameter(".omega"),
                            weight = trainer.parameters().download(mlp.norm->value);
  double radius = 0, norm = 0;
  for (std::size_t i = 0; i < gamma.size(); ++i)
    radius = std::max(radius, std::min(1.0, std::hypot(gamma[i], omega[i])));
  for (std::size_t t = 0; t < example.tokens.size(); ++t)
    norm = std::max(norm, rms_norm_bound(weight, std::span(x).subspan(16 * t, 16), 0));
  EXPECT_NEAR(view.branch_bounds[3] / norm,
              koopman_mlp_bound(parameter(".readout.weight"), parameter(".lift.weight"), 16, 16, radius), 1e-10);
}

TEST_F(DepthTest, MoreRoundsNeverFindLess) {
  const DepthView once = measure_depth(trainer, tape, example, 1), often = measure_depth(trainer, tape, example, 12);
  bool found_more = false;
  for (std::size_t l = 0; l < once.branch_norms.size(); ++l) {
    EXPECT_GE(often.branch_norms[l], once.branch_norms[l]) << l;
    found_more = found_more || often.branch_norms[l] > 1.05 * once.branch_norms[l];
  }
  EXPECT_TRUE(found_more) << "the gradient is hardly ever the direction that a branch lengthens most";
}

TEST_F(DepthTest, HasNothingToSayWithoutAQuestion) {
  std::fill(example.targets.begin(), example.targets.end(), -1);
  EXPECT_TRUE(measure_depth(trainer, tape, example).gradient.empty());
}

TEST_F(DepthTest, ChangesNoWeight) {
  const std::string before = trainer.checksum();
  measure_depth(trainer, tape, example);
  trainer.step();
  Trainer other(small_recipe(), *backend, DType::f64);
  EXPECT_EQ(trainer.finished_steps(), 6);
  for (int i = 0; i < 5; ++i) other.step();
  EXPECT_EQ(other.checksum(), before);
  other.step();
  EXPECT_EQ(other.checksum(), trainer.checksum());
}

TEST(Depth, IsPublishedWithTheProbe) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  analysed.go_to(3);
  analysed.update(Analysis::probe);
  analysed.update(Analysis::theory);
  const Observation seen = analysed.describe();
  ASSERT_TRUE(seen.depth);
  EXPECT_EQ(seen.depth->step, 3);
  EXPECT_FALSE(seen.depth->gradient.empty());
}

}  // namespace
}  // namespace afterglow
