// Recall of a planted token: the decoder on made-up outputs, and a layer that delays its input by seven tokens.
#include "core/engine/analyses/race/planted_recall.h"

#include <gtest/gtest.h>

#include "core/layers/host_values.h"
#include "core/ops/ops.h"
#include "core/random/random.h"

namespace afterglow {
namespace {

/// [contexts, classes, width]: noise, and in one channel the class times `signal`.
std::vector<double> outputs(int contexts, int classes, int width, double signal) {
  Random random(11);
  std::vector<double> all;
  for (int m = 0; m < contexts; ++m) {
    for (int k = 0; k < classes; ++k) {
      for (int c = 0; c < width; ++c) all.push_back(random.normal() + (c == 1 ? signal * k : 0.0));
    }
  }
  return all;
}

TEST(DecodedShare, GrowsWithTheSignalFromGuessingToAll) {
  EXPECT_EQ(decoded_share(outputs(16, 4, 8, 100), 16, 4, 8), 1.0);
  const double nothing = decoded_share(outputs(400, 4, 8, 0), 400, 4, 8),
               some = decoded_share(outputs(400, 4, 8, 2), 400, 4, 8);
  EXPECT_NEAR(nothing, 0.25, 0.05);
  EXPECT_GT(some, 0.5);
  EXPECT_LT(some, 0.95);
}

TEST(DecodedShare, EqualOutputsAreGuesses) {
  EXPECT_EQ(decoded_share(std::vector<double>(16 * 4 * 3, 1.0), 16, 4, 3), 0.25);
}

// What it says at the end of the question is what stood seven tokens before: the phrase, while that is four to seven.
TEST(PlantedRecall, ADelayRecallsWhileItReachesThePhrase) {
  constexpr int width = 6, taps = 8;
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  Arena arena(*backend);
  Tape tape(*backend, arena);
  const SequenceMap delay = [](Tape& on, const Var& x, const Tensor&) {
    std::vector<double> weight(static_cast<std::size_t>(width * taps), 0.0);
    for (int c = 0; c < width; ++c) weight[static_cast<std::size_t>(c * taps)] = 1.0;  // the oldest token in reach
    const Var kernel = on.constant(to_device(on, {width, 1, taps}, DType::f64, weight));
    const Var bias = on.constant(to_device(on, {width}, DType::f64, std::vector<double>(width, 0.0)));
    return causal_conv(on, x, kernel, bias);
  };
  // All contexts of a lag at once, and one by one.
  for (const auto& [tokens_at_once, passes] : {std::pair{4096, 5}, std::pair{1, 5 * recall_contexts}}) {
    RecallNoise noise(5, width, 16);
    PlantedRecall recall(tape, DType::f64, noise, delay, {3, {4, 5, 7, 8, 12}, tokens_at_once});
    int pieces = 1 - recall_contexts;  // as many to draw the noise
    while (recall.advance()) {
      ++pieces;
      EXPECT_EQ(recall.lags().size(), recall.shares().size());
    }
    EXPECT_EQ(pieces, passes);
    EXPECT_EQ(recall.shares(), (std::vector<double>{1.0, 1.0, 1.0, 0.25, 0.25}));
    EXPECT_EQ(recall.lags(), (std::vector<double>{4, 5, 7, 8, 12}));
  }
}

}  // namespace
}  // namespace afterglow
