// Layers whose heads share what they read: token weights of every head give what the head answers, and what does not
// divide is refused.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/io/error.h"
#include "tests/core/layers/captured_small_layer.h"

namespace afterglow {
namespace {

using nlohmann::json;

constexpr int shared_tokens = 11, shared_width = 12;

/// The largest difference between a head's output and the output computed from its token weights.
double largest_difference(const char* kind, const json& config, double skip) {
  const CapturedSmallLayer small(kind, config, shared_tokens, shared_width);
  const CapturedLayer captured = small.captured();
  double worst = 0;
  for (int head = 0; head < captured.heads(); ++head) {
    const WeightMatrix weights = readers_of(kind).token_weights(captured, head);
    const std::vector<double> values = captured.of_head("values", head), answers = captured.of_head("readout", head);
    const std::size_t columns = values.size() / shared_tokens;
    EXPECT_EQ(weights.size(), static_cast<std::size_t>(shared_tokens * shared_tokens));
    for (std::size_t t = 0; t < shared_tokens; ++t) {
      for (std::size_t p = 0; p < columns; ++p) {
        double sum = skip * values[t * columns + p];
        for (std::size_t s = 0; s <= t; ++s) sum += weights[t * shared_tokens + s] * values[s * columns + p];
        worst = std::max(worst, std::abs(sum - answers[t * columns + p]));
      }
    }
  }
  return worst;
}

TEST(SharedHeads, TokenWeightsGiveWhatEachHeadAnswers) {
  constexpr double start_of_D = 1.0;
  EXPECT_LT(largest_difference("mamba2", {{"d_model", 12}, {"d_state", 5}, {"headdim", 4}, {"ngroups", 3}}, start_of_D),
            1e-12);
  EXPECT_LT(largest_difference("mamba2",
                               {{"d_model", 12}, {"d_state", 5}, {"headdim", 4}, {"ngroups", 6}, {"dt_ceiling", 0.05}},
                               start_of_D),
            1e-12);
  EXPECT_LT(
      largest_difference("gated_deltanet",
                         {{"d", 12}, {"H", 4}, {"query_heads", 2}, {"key_heads", 2}, {"allow_neg_eigval", true}}, 0),
      1e-12);
  EXPECT_LT(
      largest_difference("gla", {{"d", 12}, {"H", 4}, {"key_heads", 2}, {"value_heads", 2}, {"clamp_min", -0.02}}, 0),
      1e-12);
  EXPECT_LT(largest_difference("deltanet", {{"d", 12}, {"H", 3}, {"use_beta", false}, {"qk_norm", "l2"}}, 0), 1e-12);
}

TEST(SharedHeads, MustDivide) {
  const auto refusal = [](const char* kind, const json& config) {
    ParameterStore store;
    try {
      make_layer(kind, config, ParameterScope(store, ""));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal("mamba2", {{"d_model", 12}, {"headdim", 4}, {"ngroups", 4}}), HasSubstr("ngroups 4"));
  EXPECT_THAT(refusal("mamba2", {{"d_model", 12}, {"headdim", 4}, {"expand", 1.3}}), HasSubstr("expand"));
  EXPECT_THAT(refusal("mamba2", {{"d_model", 12}, {"headdim", 4}, {"dt_floor", 0.5}, {"dt_ceiling", 0.4}}),
              HasSubstr("dt_ceiling"));
  EXPECT_THAT(refusal("gla", {{"d", 12}, {"H", 4}, {"key_heads", 3}}), HasSubstr("key_heads"));
  EXPECT_THAT(refusal("gla", {{"d", 12}, {"use_beta", false}}), HasSubstr("use_beta"));
  EXPECT_THAT(refusal("deltanet", {{"d", 12}, {"qk_norm", "l3"}}), HasSubstr("qk_norm"));
}

}  // namespace
}  // namespace afterglow
