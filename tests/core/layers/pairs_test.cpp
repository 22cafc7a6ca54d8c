// What layers say that they store: each delta rule is the filter that its own beta stands for.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/core/layers/captured_small_layer.h"

namespace afterglow {
namespace {

constexpr int paired_tokens = 19, paired_width = 24;

/// State of a filter against a layer's own `final_state` [1,H,Dk,Dv]; queries and keys have length 1 up to 1e-6.
void expect_own_state(const char* kind, const nlohmann::json& config, FilterKind filter) {
  const CapturedSmallLayer small(kind, config, paired_tokens, paired_width);
  const CapturedLayer layer = small.captured();
  for (int head = 0; head < layer.heads(); ++head) {
    const PairSequence pairs = readers_of(kind).pairs(layer, head);
    ASSERT_TRUE(is_sound(pairs)) << kind;
    const FilterRun run = run_filter(filter, pairs);
    const std::vector<double> own = layer.block("final_state", head);
    ASSERT_EQ(run.state.size(), own.size()) << kind;
    for (std::size_t i = 0; i < own.size(); ++i) EXPECT_NEAR(run.state[i], own[i], 1e-4) << kind;
  }
}

TEST(Pairs, OfADeltaRuleLeadItsFilterToTheLayersState) {
  expect_own_state("deltanet", {{"d", paired_width}, {"H", 2}, {"Dk", 5}, {"Dv", 4}}, FilterKind::deltanet);
  expect_own_state("gated_deltanet", {{"d", paired_width}, {"H", 2}, {"Dk", 5}, {"Dv", 4}}, FilterKind::gated_deltanet);
  expect_own_state("kalman", {{"d", paired_width}, {"H", 2}, {"Dk", 5}, {"Dv", 4}}, FilterKind::kalman);
}

TEST(Pairs, OfGatedKalmaNetLeadItsFilterToTheLayersAnswer) {
  const nlohmann::json config = {{"hidden_size", paired_width},
                                 {"num_heads", 2},
                                 {"head_dim", 6},
                                 {"num_iter", 200},
                                 {"use_alpha_connection", false}};
  const CapturedSmallLayer small("gka", config, paired_tokens, paired_width);
  const CapturedLayer layer = small.captured();
  const PairSequence pairs = readers_of("gka").pairs(layer, 1);
  const FilterRun run = run_filter(FilterKind::gka, pairs);
  const std::vector<double> q = layer.row("queries", paired_tokens - 1, 1),
                            y = layer.row("readout", paired_tokens - 1, 1);
  for (std::size_t p = 0; p < y.size(); ++p) {
    double read = 0;
    for (std::size_t i = 0; i < q.size(); ++i) read += q[i] * run.state[i * y.size() + p];
    EXPECT_NEAR(read / std::sqrt(6.0), y[p], 1e-7);
  }
}

TEST(Pairs, AreATraitOfTheirLayers) {
  for (const char* kind : {"gka", "deltanet", "gated_deltanet", "kda", "kalman"})
    EXPECT_TRUE(shows(kind, LayerTrait::pairs)) << kind;
  for (const char* kind : {"ska", "attention", "mamba2"}) EXPECT_FALSE(shows(kind, LayerTrait::pairs)) << kind;
}

/// The core of Kimi Delta Attention by a loop over tokens, channels and values.
TEST(Pairs, OfKdaAreReadAsTheLayerReadsThem) {
  const CapturedSmallLayer small("kda", {{"d", paired_width}, {"H", 2}, {"Dk", 5}, {"Dv", 4}}, paired_tokens,
                                 paired_width);
  const CapturedLayer layer = small.captured();
  constexpr int keys = 5, values = 4;
  for (int head = 0; head < 2; ++head) {
    double S[keys][values] = {};
    for (int t = 0; t < paired_tokens; ++t) {
      const std::vector<double> k = layer.row("keys", t, head), v = layer.row("values", t, head),
                                q = layer.row("queries", t, head), g = layer.row("log_decay", t, head),
                                y = layer.row("readout", t, head);
      const double beta = layer.row("beta", t, head).front();
      ASSERT_EQ(g.size(), static_cast<std::size_t>(keys)) << "a decay for each channel";
      for (int p = 0; p < values; ++p) {
        double read = 0, answer = 0;
        for (int i = 0; i < keys; ++i) {
          S[i][p] *= std::exp(g[static_cast<std::size_t>(i)]);
          read += S[i][p] * k[static_cast<std::size_t>(i)];
        }
        for (int i = 0; i < keys; ++i) {
          S[i][p] += beta * k[static_cast<std::size_t>(i)] * (v[static_cast<std::size_t>(p)] - read);
          answer += S[i][p] * q[static_cast<std::size_t>(i)];
        }
        EXPECT_NEAR(answer / std::sqrt(5.0), y[static_cast<std::size_t>(p)], 1e-12);
      }
    }
  }
}

}  // namespace
}  // namespace afterglow
