// What a model writes: greedy as over the whole sequence, the same draws again, and texts that are tokens and back.
#include "core/engine/inspection/generation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/backend/token_ranking.h"
#include "core/engine/training/training_run.h"
#include "core/io/error.h"
#include "core/layers/host_values.h"
#include "core/random/random.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

class Generation : public ::testing::Test {
 protected:
  Generation() {
    nlohmann::json json = small_recipe_json();
    json["model"]["vocab"] = 29;
    json["model"]["blocks"][1]["mixer"]["mode"] = "recurrent";
    json["task"] = {{"kind", "stories"}, {"length", 24}};
    run_ = std::make_unique<TrainingRun>(parse_recipe(json, "writer"), *backend_);
    run_->go_to(40);
  }
  std::vector<int> written(const GenerationOptions& options) {
    std::vector<int> tokens;
    generate(run_->trainer(), beginning_, options, [&](int token) {
      tokens.push_back(token);
      return true;
    });
    return tokens;
  }

  std::unique_ptr<Backend> backend_ = make_cpu_backend(1);
  std::unique_ptr<TrainingRun> run_;
  std::vector<int> beginning_ = make_task("stories")->tokens_of("mia the ");
};

// Each token is the most probable one after all before it, computed over the whole sequence.
TEST_F(Generation, WithoutTemperatureTheMostProbableTokenFollows) {
  const std::vector<int> tokens = written({.count = 12, .temperature = 0});
  std::vector<std::int32_t> all(beginning_.begin(), beginning_.end());
  all.insert(all.end(), tokens.begin(), tokens.end());
  Tape& tape = run_->trainer().evaluation_tape();
  tape.begin(false);
  const auto length = static_cast<std::int64_t>(all.size());
  const Tensor input = tape.scratch({1, length}, DType::i32);
  backend_->upload(input, all.data());
  const std::vector<double> logits = to_host(*backend_, run_->trainer().model().forward(tape, input, {}).value);
  for (std::size_t t = beginning_.size(); t < all.size(); ++t) {
    const std::span<const double> row(logits.data() + (t - 1) * 29, 29);
    EXPECT_EQ(std::ranges::max_element(row) - row.begin(), all[t]) << t;
  }
}

/// All tokens in order of their logits, as a stable sort leaves them, and the one that the next random number chooses.
int drawn_from_all_in_order(std::span<const double> logits, const GenerationOptions& options, Random& random) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  if (options.temperature <= 0) return static_cast<int>(order.front());
  if (options.top > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(options.top)));
  const double largest = logits[order.front()];
  std::vector<double> sums;
  double sum = 0;
  for (const std::size_t token : order)
    sums.push_back(sum += std::exp((logits[token] - largest) / options.temperature));
  if (options.top_p < 1) {
    while (sums.size() > 1 && sums[sums.size() - 2] > options.top_p * sum) sums.pop_back();
    sum = sums.back();
  }
  const auto found = std::ranges::upper_bound(sums, random.uniform() * sum);
  return static_cast<int>(order[std::min(static_cast<std::size_t>(found - sums.begin()), sums.size() - 1)]);
}

/// draw_token of these logits; the sum over the vocabulary is off by its last digits, as in another order.
int drawn(std::span<const double> logits, const GenerationOptions& options, Random& random,
          std::int64_t* most = nullptr) {
  const RankTokens rank = [&](std::int64_t count, double temperature) {
    if (most != nullptr) *most = std::max(*most, count);
    std::vector<double> ranked = ranked_logits(logits, temperature, static_cast<std::size_t>(count));
    ranked[0] *= 1 + 1e-15;
    return ranked;
  };
  return draw_token(std::ssize(logits), rank, options, random);
}

TEST(DrawToken, IsThatOfAllTokensInOrderWithoutSortingThem) {
  Random numbers(5);
  std::size_t beyond_the_first = 0;
  for (const double spread : {0.0, 0.01, 1.0, 6.0}) {  // 0: all are equal
    std::vector<double> logits;
    for (int i = 0; i < 5000; ++i) logits.push_back(std::round(spread * numbers.normal() * 8) / 8);  // many are equal
    for (const GenerationOptions& options : {GenerationOptions{.temperature = 0},
                                             {.temperature = 1},
                                             {.temperature = 0.3},
                                             {.temperature = 1, .top = 1},
                                             {.temperature = 2, .top = 40},
                                             {.temperature = 1, .top = 4000},
                                             {.temperature = 1, .top = 9000},
                                             {.temperature = 1, .top_p = 0.3},
                                             {.temperature = 0.2, .top_p = 0.9},
                                             {.temperature = 2, .top = 40, .top_p = 0.5},
                                             {.temperature = 1, .top_p = 0}}) {
      Random one(11), other(11);
      for (int i = 0; i < 40; ++i) {
        const int wanted = drawn_from_all_in_order(logits, options, one);
        ASSERT_EQ(drawn(logits, options, other), wanted) << spread << " " << options.temperature << " " << i;
        if (logits[static_cast<std::size_t>(wanted)] < spread) ++beyond_the_first;
      }
      EXPECT_EQ(one.uniform(), other.uniform()) << "both take as many random numbers";
    }
  }
  EXPECT_GT(beyond_the_first, 100u) << "some draws end far down the order";
}

TEST(DrawToken, RefusesWhatIsNoNumber) {
  Random random(1);
  for (const double broken : {std::nan(""), std::numeric_limits<double>::infinity()})
    EXPECT_THROW(drawn(std::vector<double>{1, broken, 2}, {}, random), Error);
  EXPECT_EQ(drawn(std::vector<double>{1, -std::numeric_limits<double>::infinity()}, {}, random), 0);
}

TEST(DrawToken, RanksFewTokensOfALargeVocabulary) {
  Random numbers(5), random(2);
  std::vector<double> logits;
  for (int i = 0; i < 50000; ++i) logits.push_back(4 * numbers.normal());
  std::int64_t most = 0;
  for (int i = 0; i < 40; ++i) drawn(logits, {.temperature = 0.5, .top_p = 0.9}, random, &most);
  EXPECT_LE(most, 256);
}

TEST_F(Generation, TheSameDrawWritesTheSame) {
  const std::vector<int> first = written({.count = 64, .seed = 3});
  EXPECT_EQ(first.size(), 64u);
  EXPECT_EQ(written({.count = 64, .seed = 3}), first);
  EXPECT_NE(written({.count = 64, .seed = 4}), first);
  EXPECT_EQ(written({.count = 20, .top = 1, .seed = 3}), written({.count = 20, .temperature = 0}));
  EXPECT_EQ(written({.count = 20, .top_p = 0, .seed = 3}), written({.count = 20, .temperature = 0}));
}

TEST_F(Generation, ABeginningReadAtOnceIsGoneOnFromAlike) {
  const std::vector<int> tokens = written({.count = 24, .temperature = 0});
  EXPECT_EQ(written({.count = 24, .temperature = 0, .prefills = true}), tokens) << "its ska reads the past alone";
  EXPECT_EQ(written({.count = 24, .temperature = 0, .prefills = true, .keeps_scale = true}).size(), 24u);
}

TEST_F(Generation, EndsWhereItIsTold) {
  int taken = 0;
  generate(run_->trainer(), beginning_, {}, [&](int) { return ++taken < 5; });
  EXPECT_EQ(taken, 5);
}

TEST_F(Generation, RefusesWhatIsNoToken) {
  const auto take = [](int) { return true; };
  EXPECT_THROW(generate(run_->trainer(), {}, {}, take), Error);
  const std::vector<int> unknown{29};
  EXPECT_THROW(generate(run_->trainer(), unknown, {}, take), Error);
}

TEST(TextsOfTasks, AreTokensAndBack) {
  const auto round_trip = [](const Task& task, const std::string& text) {
    std::string back;
    for (const int token : task.tokens_of(text)) back += task.token_text(token);
    return back;
  };
  EXPECT_EQ(round_trip(*make_task("stories"), "mia the fox.\nonce "), "mia the fox.\nonce ");
  EXPECT_THROW(make_task("stories")->tokens_of("Mia"), Error);
  const std::unique_ptr<Task> prompt = make_task("sysprompt");
  EXPECT_EQ(round_trip(*prompt, "k3 v9  k5\nv2"), "k3 v9 k5 v2 ");
  EXPECT_EQ(prompt->tokens_of("#17 k1"), (std::vector{17, 17}));
  EXPECT_THROW(prompt->tokens_of("k3 nothing"), Error);
}

}  // namespace
}  // namespace afterglow
