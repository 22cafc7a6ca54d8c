// The runner of recipes: results that are never made twice, claims, what a killed or interrupted process leaves, and
// bits that depend on nothing but the recipe.
#include "core/studies/recipe_runner.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <thread>

#include "core/engine/training/training_run.h"
#include "core/io/checksum.h"
#include "core/io/claim.h"
#include "core/recipe/recipe.h"
#include "tests/core/engine/small_recipe.h"
#include "tests/core/io/temporary_folder.h"

namespace afterglow {
namespace {

using ::testing::HasSubstr;

Inquiry last_loss() {
  return {"small", {{"loss", "nats"}, {"never", ""}}, [](TrainingRun& run) {
            return RunAnswer{{run.curves().loss.back(), std::nan("")}, {"1 ska · head 2", {{0.5, 0.25}, {0.1, 0}}}};
          }};
}

std::vector<PlannedRun> small_runs(int count) {
  std::vector<PlannedRun> runs;
  for (int i = 0; i < count; ++i) {
    PlannedRun run{static_cast<std::size_t>(i), small_recipe(), "run_" + std::to_string(i)};
    run.recipe.seed += static_cast<std::uint64_t>(i);
    runs.push_back(run);
  }
  return runs;
}

std::string checksum_alone(const Recipe& recipe) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(2);
  TrainingRun run(recipe, *backend, 0);
  while (!run.finished() && run.train_step()) {
  }
  return run.trainer().checksum();
}

class Runner : public TemporaryFolder {
 protected:
  /// Trains what is missing with so many threads; how many steps were shown.
  int train(const std::vector<PlannedRun>& runs, int jobs, int stop_after = 1 << 30, SaveInterval saves = {}) {
    const std::unique_ptr<Backend> first = make_cpu_backend(1);
    const std::vector<BackendOpener> others(static_cast<std::size_t>(jobs - 1), open_another_);
    std::atomic<int> steps = 0;
    RecipeRunner runner(inquiry_, runs, results_, saves,
                        {[&] { return steps >= stop_after; },
                         [&](double share, const std::string&) {
                           EXPECT_GE(share, 0);
                           EXPECT_LE(share, 1);
                           if (++steps == kill_at_) ::raise(SIGKILL);
                         },
                         [&](const std::string& text) { messages_.push_back(text); }});
    runner.train(*first, others);
    return steps;
  }
  const Inquiry inquiry_ = last_loss();
  const ResultFolder results_{folder_, inquiry_};
  std::vector<std::string> messages_;
  BackendOpener open_another_ = [] { return make_cpu_backend(1); };
  int kill_at_ = 0;  ///< steps after which the process that trains is killed; 0: never
};

TEST_F(Runner, EveryRunHasTheBitsThatItHasAlone) {
  const std::vector<PlannedRun> runs = small_runs(3);
  train(runs, 3);
  for (const PlannedRun& run : runs) EXPECT_EQ(results_.read(run)->checksum, checksum_alone(run.recipe)) << run.name;
}

TEST_F(Runner, FirstRunsWaitForNoOtherBackEnd) {
  const std::vector<PlannedRun> runs = small_runs(2);
  const auto until_the_first_run_is_done = [&] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!results_.read(runs[0]) && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(results_.read(runs[0]));
    return make_cpu_backend(1);
  };
  open_another_ = until_the_first_run_is_done;
  train(runs, 2);
  EXPECT_TRUE(results_.read(runs[1]));
}

TEST_F(Runner, ABackEndThatCannotBeOpenedStopsTheRunsWithItsReason) {
  open_another_ = []() -> std::unique_ptr<Backend> { throw Error(ExitCode::no_gpu, "GPU 7 is gone"); };
  EXPECT_THAT(message_of(ExitCode::no_gpu, [&] { train(small_runs(20), 2); }), HasSubstr("GPU 7 is gone"));
  open_another_ = [] { return make_cpu_backend(1); };
  train(small_runs(2), 2);  // what had begun goes on
  EXPECT_EQ(results_.read(small_runs(2)[0])->checksum, checksum_alone(small_runs(2)[0].recipe));
}

TEST_F(Runner, WhatIsFinishedIsNotTrainedAgain) {
  EXPECT_GT(train(small_runs(2), 1), 70);
  const auto written = std::filesystem::last_write_time(file("run_0.json"));
  EXPECT_GT(train(small_runs(3), 1), 35);
  EXPECT_EQ(std::filesystem::last_write_time(file("run_0.json")), written);
  EXPECT_EQ(train(small_runs(3), 2), 0);
  EXPECT_EQ(names().size(), 3u) << "claims are gone when the work is done";
}

TEST_F(Runner, AnInterruptedRunGoesOnFromItsSnapshotToTheSameResult) {
  const std::vector<PlannedRun> runs = small_runs(1);
  EXPECT_THAT(message_of(ExitCode::interrupted, [&] { train(runs, 1, 25); }), HasSubstr("run the same command again"));
  EXPECT_TRUE(std::filesystem::exists(results_.snapshot_file(runs[0])));
  EXPECT_LT(train(runs, 1), 20) << "25 of its 40 steps are there already";
  const RunResult resumed = *results_.read(runs[0]);
  EXPECT_FALSE(std::filesystem::exists(results_.snapshot_file(runs[0])));
  results_.forget(runs[0]);
  train(runs, 1);
  const RunResult whole = *results_.read(runs[0]);
  EXPECT_EQ(resumed.checksum, whole.checksum);
  EXPECT_EQ(resumed.values[0], whole.values[0]);
  EXPECT_EQ(resumed.sketch.loss, whole.sketch.loss);
  EXPECT_EQ(resumed.sketch.held_out_accuracy, whole.sketch.held_out_accuracy);
}

TEST_F(Runner, WhatAKilledProcessSavedOnTheWayIsNotTrainedAgain) {
  const std::vector<PlannedRun> runs = small_runs(1);
  const pid_t child = ::fork();
  if (child == 0) {
    kill_at_ = 32;
    train(runs, 1, 1 << 30, {.steps = 15});
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_TRUE(std::filesystem::exists(results_.snapshot_file(runs[0])));
  EXPECT_EQ(read_snapshot(results_.snapshot_file(runs[0])).step, 30);
  EXPECT_LT(train(runs, 1), 15);
  EXPECT_EQ(results_.read(runs[0])->checksum, checksum_alone(runs[0].recipe));
}

TEST_F(Runner, WhatIsLeftBesideAResultIsRemoved) {
  const std::vector<PlannedRun> runs = small_runs(1);
  train(runs, 1);
  put("run_0.safetensors", "killed before it removed this");
  put("run_0.claim", "");
  EXPECT_EQ(train(runs, 1), 0);
  EXPECT_EQ(names(), std::vector<std::string>{"run_0.json"});
}

TEST_F(Runner, ASnapshotOfAnotherRecipeOrADamagedOneIsPassedOver) {
  std::vector<PlannedRun> runs = small_runs(1);
  EXPECT_THROW(train(runs, 1, 5), Error);
  runs[0].recipe.about = "Other words";
  EXPECT_TRUE(results_.begun(runs[0]));
  runs[0].recipe.training.learning_rate *= 2;
  EXPECT_FALSE(results_.begun(runs[0]));
  EXPECT_GT(train(runs, 1), 35);
  EXPECT_EQ(results_.read(runs[0])->checksum, checksum_alone(runs[0].recipe));
  results_.forget(runs[0]);
  put("run_0.safetensors", "no snapshot");
  train(runs, 1);
  EXPECT_EQ(results_.read(runs[0])->checksum, checksum_alone(runs[0].recipe));
}

TEST_F(Runner, AResultIsReadBackOnlyForItsOwnRecipeAndNumbers) {
  const std::vector<PlannedRun> runs = small_runs(1);
  EXPECT_FALSE(results_.read(runs[0]));
  train(runs, 1);
  const RunResult read = *results_.read(runs[0]);
  EXPECT_TRUE(std::isfinite(read.values[0]));
  EXPECT_TRUE(std::isnan(read.values[1]));
  EXPECT_EQ(read.sketch.step.back(), 40);
  PlannedRun reworded = runs[0];
  reworded.recipe.title = "Other words";
  reworded.recipe.about = "They change no number.";
  EXPECT_TRUE(results_.read(reworded)) << "a preset whose words change is not trained again";
  EXPECT_EQ(read.spectrum.head, "1 ska · head 2");
  EXPECT_THAT(read.spectrum.eigenvalues, testing::ElementsAre(std::complex(0.5, 0.25), std::complex(0.1, 0.0)));
  PlannedRun other = runs[0];
  other.recipe.training.learning_rate *= 2;
  EXPECT_FALSE(results_.read(other));
  Inquiry more = inquiry_;
  more.metrics.push_back({"another", ""});
  EXPECT_FALSE(ResultFolder(folder_, more).read(runs[0]));
}

TEST_F(Runner, ARunEndsEarlyWhereItIsGoodEnough) {
  Inquiry easy = inquiry_;
  easy.enough = {0.0};
  std::vector<PlannedRun> runs = small_runs(1);
  EXPECT_NE(hash_of(runs[0].recipe, easy), hash_of(runs[0].recipe, inquiry_)) << "the results differ";
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  RecipeRun run(easy, runs[0], *backend);
  while (run.train_step()) {
  }
  EXPECT_EQ(run.step(), 10) << "the first held-out evaluation";
  Inquiry twice = easy;
  twice.enough.evaluations = 2;
  EXPECT_NE(hash_of(runs[0].recipe, easy), hash_of(runs[0].recipe, twice));
  RecipeRun again(twice, runs[0], *backend);
  while (again.step() < 15 && again.train_step()) {
  }
  RecipeRun resumed(twice, runs[0], *backend, again.snapshot());
  while (resumed.train_step()) {
  }
  EXPECT_EQ(resumed.step(), 20) << "the second in a row, also of a run that was taken up between the two";
}

TEST_F(Runner, ARunThatDivergesEndsWithoutStoppingTheOthers) {
  std::vector<PlannedRun> runs = small_runs(2);
  runs[0].recipe.training.learning_rate = 1;
  runs[0].recipe.training.clip = 0;
  runs[0].recipe.training.warmup = 0;
  runs[0].recipe.training.epsilon = 1e-16;
  runs[0].recipe.training.beta2 = 0;
  train(runs, 2);
  EXPECT_TRUE(results_.read(runs[0]));
  EXPECT_EQ(results_.read(runs[1])->checksum, checksum_alone(runs[1].recipe));
}

TEST_F(Runner, ResultsNamedByTheWordsOfTheirRecipeAreStillFound) {
  PlannedRun run = small_runs(1)[0];
  run.recipe.title = "A title";
  const std::string text = carried_text(run.recipe);
  PlannedRun former = run;
  former.name = hex16(checksum(std::as_bytes(std::span(text))));
  run.name = hash_of(run.recipe, inquiry_);
  train({former}, 1);
  EXPECT_FALSE(results_.read(run));
  results_.adopt(run);
  EXPECT_TRUE(results_.read(run));
  EXPECT_EQ(names(), std::vector<std::string>{run.name + ".json"});
}

TEST_F(Runner, HashesFollowWhatTheResultDependsOn) {
  const Recipe recipe = small_recipe();
  Recipe other = recipe;
  EXPECT_EQ(hash_of(recipe, inquiry_), hash_of(other, inquiry_));
  other.seed += 1;
  EXPECT_NE(hash_of(recipe, inquiry_), hash_of(other, inquiry_));
  Recipe here = recipe, there = recipe;
  here.task = {{"kind", "text"}, {"path", "/here/a.txt"}, {"hash", "1"}};
  there.task = {{"kind", "text"}, {"path", "/there/a.txt"}, {"hash", "1"}};
  EXPECT_EQ(hash_of(here, inquiry_), hash_of(there, inquiry_)) << "the same data on another machine";
  Recipe reworded = recipe;
  reworded.title = "Other words";
  reworded.about = "They change no number.";
  EXPECT_EQ(hash_of(recipe, inquiry_), hash_of(reworded, inquiry_));
  EXPECT_EQ(siblings_key(recipe), siblings_key(reworded));
  nlohmann::json file = to_json(recipe);
  file.erase("title");
  file.erase("about");
  const std::string text = carried_text(parse_recipe(file, "r"));
  EXPECT_EQ(hash_of(reworded, inquiry_), hex16(checksum(std::as_bytes(std::span(text))))) << "of a file without words";
}

class Claims : public TemporaryFolder {};

TEST_F(Claims, OneHolderAtATimeAndAgainAfterIt) {
  const auto path = file("work.claim");
  {
    const std::optional<Claim> first = Claim::take(path);
    ASSERT_TRUE(first);
    EXPECT_FALSE(Claim::take(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(Claim::take(path));
}

TEST_F(Claims, GoWithAProcessThatEndsWithoutLeavingItsFunctions) {
  const auto one = file("one.claim"), two = file("two.claim");
  std::optional<Claim> first = Claim::take(one);
  const std::optional<Claim> second = Claim::take(two);
  std::optional<Claim>(std::move(first)).reset();
  EXPECT_FALSE(std::filesystem::exists(one));
  EXPECT_TRUE(std::filesystem::exists(two));
  Claim::remove_all();
  EXPECT_FALSE(std::filesystem::exists(two));
}

TEST_F(Claims, WhatAKilledProcessLeavesStopsNobody) {
  const auto path = file("work.claim");
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::optional<Claim> claim = Claim::take(path);
    [[maybe_unused]] const auto written = ::write(ready[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_FALSE(Claim::take(path)) << "it lives";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(std::filesystem::exists(path)) << "no process tidied up";
  EXPECT_TRUE(Claim::take(path));
}

TEST_F(Claims, OfManyThreadsExactlyOneWorksAtATime) {
  const auto path = file("work.claim");
  std::atomic<int> inside = 0, most = 0, turns = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 200; ++turn) {
        const std::optional<Claim> claim = Claim::take(path);
        if (!claim) continue;
        most = std::max(most.load(), ++inside);
        ++turns;
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  EXPECT_GT(turns, 0);
}

}  // namespace
}  // namespace afterglow
