// Sessa's influence: the golden Jacobian norms of the block, uniform routing against its closed form, and the exponents
// of stacked feedback solves from the stack's Jacobian (theorem 12).
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/analysis/influence/influence.h"
#include "core/analysis/influence/influence_fit.h"
#include "core/engine/analyses/influence/jacobian_measure.h"
#include "core/io/safetensors.h"
#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"
#include "core/ops/ops.h"
#include "tests/support/folders.h"

namespace afterglow {
namespace {

std::vector<NormEstimate> exact_norms(Tape& tape, const std::vector<double>& x, int tokens, const SequenceMap& map,
                                      std::vector<JacobianPlan::Block> blocks) {
  JacobianPlan plan;
  plan.blocks = std::move(blocks);
  plan.directions = static_cast<int>(x.size()) / tokens;
  plan.tokens_at_once = 1 << 14;
  JacobianMeasure measure(tape, DType::f64, x, std::vector<std::uint8_t>(static_cast<std::size_t>(tokens), 1), map,
                          plan);
  while (measure.advance()) {
  }
  return measure.norms();
}

TEST(FeedbackInfluence, BlockNormsAreThoseOfTheGoldenFile) {
  const TensorFile file = read_safetensors(golden_folder() / "sessa_tiny.safetensors");
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  ParameterStore store;
  const auto layer = make_layer("sessa", nlohmann::json::parse(file.metadata.at("config")), ParameterScope(store, ""));
  store.allocate_values(*backend, DType::f64);
  for (const Parameter& parameter : store.all())
    store.upload(parameter, to_doubles(*file.find("param." + parameter.name)));
  const HostTensor& x = *file.find("x");
  const int tokens = static_cast<int>(x.shape[1]), width = static_cast<int>(x.shape[2]);
  std::vector<double> first = to_doubles(x);
  first.resize(static_cast<std::size_t>(tokens * width));  // batch element 0
  std::vector<JacobianPlan::Block> blocks;
  for (int t = 0; t < tokens; ++t) {
    for (int tau = 0; tau <= t; ++tau) blocks.push_back({t, tau});
  }
  Arena arena(*backend);
  Tape tape(*backend, arena);
  const std::vector<NormEstimate> norms = exact_norms(
      tape, first, tokens, [&](Tape& on, const Var& in, const Tensor& mask) { return layer->forward(on, in, mask); },
      blocks);
  const std::vector<double> golden = to_doubles(*file.find("probe.jacobian_norms"));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const double expected = golden[static_cast<std::size_t>(blocks[i].query * tokens + blocks[i].source)];
    EXPECT_NEAR(norms[i].value, expected, 1e-9 * (1 + expected)) << blocks[i].query << " " << blocks[i].source;
  }
}

/// s of the feedback solve with uniform routing (all logits 0) and constant gain, f = profile * x.
Var uniform_solve(Tape& tape, const Var& x, double gamma, const std::vector<double>& profile) {
  const std::int64_t B = x.shape()[0], T = x.shape()[1], d = x.shape()[2];
  std::vector<double> factors;
  for (std::int64_t i = 0; i < B * T * d; ++i) factors.push_back(profile[static_cast<std::size_t>(i / d % T)]);
  FeedbackVars in;
  in.q = in.k = tape.constant(to_device(tape, x.shape(), DType::f64, std::vector<double>(factors.size(), 0.0)));
  in.gamma =
      tape.constant(to_device(tape, {B, T}, DType::f64, std::vector<double>(static_cast<std::size_t>(B * T), gamma)));
  in.f = multiply(tape, x, tape.constant(to_device(tape, x.shape(), DType::f64, factors)));
  return add(tape, feedback_solve(tape, in, 1.0), scale(tape, in.f, -1.0));  // what came over at least one hop
}

TEST(FeedbackInfluence, OfUniformRoutingIsTheClosedForm) {
  constexpr int T = 400;
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  Arena arena(*backend);
  Tape tape(*backend, arena);
  const std::vector<double> flat(T, 1.0);
  for (const int source : {0, 7}) {
    const auto blocks = influence_blocks(std::vector<int>{source}, T, 10);
    const auto norms = exact_norms(
        tape, std::vector<double>(T, 1.0), T,
        [&](Tape& on, const Var& x, const Tensor&) { return uniform_solve(on, x, 0.6, flat); }, blocks);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const double expected = uniform_routing_influence(0.6, source, blocks[i].query - source);
      EXPECT_NEAR(norms[i].value, expected, 1e-11 * expected);
    }
  }
}

// Decaying, frozen, increasing: k (1 - beta) - 1 with beta = 1/2, measured on the Jacobian of the stack itself.
TEST(FeedbackInfluence, StackedSolvesHaveTheExponentsOfTheTheorem) {
  constexpr int T = 2048;
  constexpr double beta = 0.5;
  const std::unique_ptr<Backend> backend = make_cpu_backend(2);
  Arena arena(*backend);
  Tape tape(*backend, arena);
  std::vector<double> profile;
  for (int t = 0; t < T; ++t) profile.push_back(std::pow(t + 1.0, 1 - beta));
  std::vector<JacobianPlan::Block> blocks;
  for (const int lag : spread_lags(T - 1, 8)) {
    if (lag >= 100) blocks.push_back({lag, 0});
  }
  for (const int depth : {1, 2, 3}) {
    const auto norms = exact_norms(
        tape, std::vector<double>(T, 1.0), T,
        [&](Tape& on, const Var& x, const Tensor&) {
          Var y = x;
          for (int block = 0; block < depth; ++block) y = uniform_solve(on, y, 1 - beta, profile);
          return y;
        },
        blocks);
    const InfluenceProfile expected = uniform_stack_profile(depth, 1 - beta, 0, T);
    std::vector<double> lags, values;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      lags.push_back(blocks[i].query);
      values.push_back(norms[i].value);
      EXPECT_NEAR(values.back(), expected.values[static_cast<std::size_t>(blocks[i].query)], 1e-10 * values.back());
    }
    EXPECT_NEAR(fit_influence(lags, values).power.slope, deep_exponent(depth, beta), 0.05) << depth << " blocks";
  }
}

}  // namespace
}  // namespace afterglow
