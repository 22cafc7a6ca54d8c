// The gradient over depth: branch by branch it is the gradient of the whole pass, and it stays within its bounds.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "core/analysis/attention/query_jacobian.h"
#include "core/analysis/depth_bounds.h"
#include "core/analysis/linear_algebra/spectrum.h"
#include "core/engine/analyses/theory/theory_view.h"
#include "core/engine/inspection/theory.h"
#include "core/engine/session/analysed_run.h"
#include "core/layers/capture_reader.h"
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

/// Norms of the maps that lead from the stream through the queries of an SKA layer, token by token, built from the
/// parameters and the captured statistics.
TEST_F(DepthTest, TheQueriesOfSkaStayBelowTheirClosedForm) {
  const DepthView view = measure_depth(trainer, tape, example);
  ASSERT_EQ(view.query_bounds.size(), 4u);
  for (const std::size_t other : {0, 1, 3}) EXPECT_TRUE(std::isnan(view.query_bounds[other])) << other;
  constexpr int d = 16, r = 6, P = 8, heads = 2;
  Model& model = trainer.model();
  const Branch& ska = model.branches()[2];
  const auto parameter = [&](const char* name) {
    return trainer.parameters().download(trainer.parameters().find(ska.scope + name)->value);
  };
  tape.begin(false);
  const Var in = model.embed(tape, upload(DType::i32, example.tokens.data()));
  const Tensor mask = upload(DType::u8, example.context.data());
  const Var below = model.forward_branches(tape, in, mask, 0, 2);
  {
    const Capturing capturing(tape);
    model.forward_branches(tape, below, mask, 2, 3);
  }
  const std::vector<double> x = to_host(*backend, below.value), eta = parameter(".eta"),
                            gamma = parameter(".gamma_raw"), weight = trainer.parameters().download(ska.norm->value),
                            output = parameter(".o_proj.weight"), query = parameter(".q_proj.weight");
  const CaptureReader read(tape, *backend);
  std::vector<double> path(d * d, 0.0), norms;  // W_o diag(J_h / m_h) W_q
  for (int h = 0; h < heads; ++h) {
    const auto statistic = [&](const char* name, int size) { return read.tail(ska.scope + name, h, heads, size); };
    const std::vector<double> G = statistic(".G", r * r), M = statistic(".M", r * r), C = statistic(".Cv", P * r);
    const double m = statistic(".m", 1).front();
    const auto head = static_cast<std::size_t>(h);
    const double ridge = 1e-3 + 1e-4 * statistic(".jitter", 1).front();
    const SkaHead own{
        r, P, G, M, C, ridge, 1 + 0.5 / (1 + std::exp(-gamma[head])), eta[head], 2, statistic(".sigma", 1).front()};
    const auto jacobian = ska_query_jacobian(own);
    ASSERT_TRUE(jacobian);
    norms.push_back(jacobian->bound / m);
    for (int i = 0; i < d; ++i) {
      for (int p = 0; p < P; ++p) {
        for (int k = 0; k < r; ++k) {
          const double factor = output[i * heads * P + h * P + p] * jacobian->J[p * r + k] / m;
          for (int j = 0; j < d; ++j) path[i * d + j] += factor * query[(h * r + k) * d + j];
        }
      }
    }
  }
  double norm = 0;
  for (std::size_t t = 0; t < example.tokens.size(); ++t)
    norm = std::max(norm, rms_norm_bound(weight, std::span(x).subspan(d * t, d), 0));
  EXPECT_NEAR(view.query_bounds[2], norm * query_path_bound(output, query, d, norms), 1e-9 * view.query_bounds[2]);
  EXPECT_GT(spectral_norm(path, d, d), 0) << "five steps have opened the output projection";
  EXPECT_LE(norm * spectral_norm(path, d, d), view.query_bounds[2] * (1 + 1e-9));
}

TEST_F(DepthTest, TheClosedFormIsTheoremJ9WithTheBoundsOfItsBranches) {
  const DepthView view = measure_depth(trainer, tape, example);
  ASSERT_EQ(view.closed_product.size(), 5u);
  const double factors[] = {view.branch_norms[0], view.branch_norms[1], view.query_bounds[2], view.branch_bounds[3]};
  double product = view.gradient.back();
  EXPECT_EQ(view.closed_product.back(), product);
  for (std::size_t l = 4; l-- > 0;) {
    product *= factors[l];
    EXPECT_NEAR(view.closed_product[l], product, 1e-12 * product) << l;
  }
}

TEST(DepthOfAttention, ItsQueriesStayBelowPropositionJ2) {
  nlohmann::json recipe = small_recipe_json();
  recipe["model"]["blocks"][1]["mixer"] = {{"kind", "attention"}, {"n_heads", 4}, {"n_kv_heads", 2}};
  const auto backend = make_cpu_backend(1);
  Trainer trainer(parse_recipe(recipe, "test"), *backend, DType::f64);
  Arena arena(*backend);
  Tape tape(*backend, arena);
  const Example example = trainer.task().example(trainer.seed(), 0, Split::held_out);
  const DepthView view = measure_depth(trainer, tape, example);
  ASSERT_EQ(view.query_bounds.size(), 4u);
  EXPECT_GT(view.query_bounds[2], 0);
  EXPECT_TRUE(std::isfinite(view.closed_product.front()));
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

/// Squares of such gradients vanish in float32.
TEST_F(DepthTest, ReadsTinyGradientsInFloat32AsInFloat64) {
  Trainer narrow(small_recipe(), *backend, DType::f32);
  for (int i = 0; i < 5; ++i) narrow.step();
  for (Trainer* each : {&trainer, &narrow}) {
    const Tensor head = each->parameters().find("head.weight")->value;
    backend->scale(head, 1e-25, {head});
  }
  const DepthView expected = measure_depth(trainer, tape, example), found = measure_depth(narrow, tape, example);
  ASSERT_EQ(found.gradient.size(), expected.gradient.size());
  EXPECT_LT(expected.gradient.back(), 1e-24);
  for (std::size_t l = 0; l < expected.gradient.size(); ++l)
    EXPECT_NEAR(found.gradient[l], expected.gradient[l], 1e-3 * expected.gradient[l]) << l;
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
  analysed.advance(Analysis::inspected, Budget::whole);
  analysed.advance(Analysis::theory, Budget::whole);
  const Observation seen = analysed.describe();
  ASSERT_TRUE(seen.depth);
  EXPECT_EQ(seen.depth->step, 3);
  EXPECT_FALSE(seen.depth->gradient.empty());
}

}  // namespace
}  // namespace afterglow
