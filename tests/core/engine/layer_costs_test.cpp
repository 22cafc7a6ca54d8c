// Echo's table 1 as measured: what does not depend on the machine, and what figures make of it.
#include "core/engine/analyses/costs/layer_costs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace afterglow {
namespace {

const LayerCost& cost_of(const CostView& view, std::string_view kind) {
  for (const LayerCost& layer : view.layers) {
    if (layer.kind == kind) return layer;
  }
  throw std::runtime_error(std::string(kind));
}

TEST(LayerCosts, StatesAndMemoryGrowAsTheTableSays) {
  double done = 0;
  const CostView view = layer_costs({.tokens = {32, 64, 128}}, [&](double share) { done = share; });
  EXPECT_EQ(done, 1);
  ASSERT_EQ(view.layers.size(), 3u);
  for (const LayerCost& layer : view.layers) {
    EXPECT_EQ(layer.tokens, (std::vector<double>{32, 64, 128})) << layer.name;
    for (const auto* values : {&layer.pass_ms, &layer.step_ms, &layer.state_bytes, &layer.pass_bytes}) {
      ASSERT_EQ(values->size(), 3u) << layer.name;
      for (const double value : *values) EXPECT_TRUE(std::isfinite(value) && value >= 0) << layer.name;
    }
    EXPECT_LT(layer.pass_bytes[0], layer.pass_bytes[2]) << layer.name << ", each token is kept for the backward pass";
  }
  const LayerCost &attention = cost_of(view, "attention"), &ska = cost_of(view, "ska"),
                  &mamba = cost_of(view, "mamba2");
  // Keys and values of every token; 2 r^2 + P r + r + 1 numbers a head (Echo 3.5), whatever the length.
  EXPECT_GE(attention.state_bytes[2], 2 * 128 * 128 * 4.0);
  EXPECT_GT(attention.state_bytes[2], 1.9 * attention.state_bytes[1]);
  for (const double bytes : ska.state_bytes) EXPECT_EQ(bytes, 4 * (2 * 24 * 24 + 32 * 24 + 24 + 1) * 4.0);
  for (const double bytes : mamba.state_bytes) EXPECT_EQ(bytes, mamba.state_bytes[0]);
}

TEST(LayerCosts, ShortSequencesOfEveryLayerAreThereFirst) {
  CostMeasurement measurement({.tokens = {16, 64}});
  EXPECT_TRUE(measurement.view()->layers.front().pass_ms.empty());
  const auto all_have = [&](std::size_t count) {
    return std::ranges::all_of(measurement.view()->layers, [&](const LayerCost& layer) {
      return layer.pass_ms.size() == count && layer.state_bytes.size() == count;
    });
  };
  int pieces = 0;
  while (!all_have(1) && measurement.advance()) ++pieces;
  EXPECT_TRUE(all_have(1)) << "before any layer has the longer one whole";
  EXPECT_DOUBLE_EQ(measurement.share_done(), 0.5);
  EXPECT_EQ(pieces, 3 * (6 + 1)) << "six passes and one reading of each";
  while (measurement.advance()) {
  }
  EXPECT_TRUE(all_have(2) && measurement.is_complete());
  EXPECT_FALSE(measurement.advance());
}

TEST(LayerCosts, MeasureOnlyWhatIsAskedFor) {
  const CostView passes = layer_costs({.tokens = {16}, .measures_steps = false}, [](double) {});
  const CostView steps = layer_costs({.tokens = {16}, .measures_passes = false}, [](double) {});
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(passes.layers[i].pass_ms.size(), 1u);
    EXPECT_TRUE(passes.layers[i].state_bytes.empty());
    EXPECT_EQ(steps.layers[i].state_bytes.size(), 1u);
    EXPECT_TRUE(steps.layers[i].pass_ms.empty());
  }
}

}  // namespace
}  // namespace afterglow
