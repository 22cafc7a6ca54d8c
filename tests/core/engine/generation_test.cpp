// What a model writes: greedy as over the whole sequence, the same draws again, and texts that are tokens and back.
#include "core/engine/inspection/generation.h"

#include <gtest/gtest.h>

#include "core/engine/training/training_run.h"
#include "core/io/error.h"
#include "core/layers/host_values.h"
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

TEST_F(Generation, TheSameDrawWritesTheSame) {
  const std::vector<int> first = written({.count = 64, .seed = 3});
  EXPECT_EQ(first.size(), 64u);
  EXPECT_EQ(written({.count = 64, .seed = 3}), first);
  EXPECT_NE(written({.count = 64, .seed = 4}), first);
  EXPECT_EQ(written({.count = 20, .top = 1, .seed = 3}), written({.count = 20, .temperature = 0}));
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
