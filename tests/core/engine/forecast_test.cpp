// Forecasting runs: learning, exact repetition with the memory of training, snapshots, scores, what is shown.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/engine/session/analysed_run.h"
#include "core/engine/training/forecast_objective.h"
#include "core/engine/training/trainer.h"
#include "core/io/error.h"
#include "tests/core/engine/train_to.h"

namespace afterglow {
namespace {

Recipe small_forecast(const std::string& model = R"({"kind": "spectral_memory", "d_model": 8, "n_heads": 2, "d_ff": 16,
    "e_layers": 1, "dropout": 0.1, "n_components": 4, "memory_tokens": 2, "memory_depth": 12})") {
  return parse_recipe(R"({"seed": 3, "model": )" + model +
                          R"(, "task": {"kind": "forecast", "length": 24, "horizon": 6},
                          "training": {"steps": 60, "batch": 4, "learning_rate": 0.003, "warmup": 5,
                          "evaluate_every": 20, "evaluate_examples": 8}})",
                      "test");
}

TEST(Forecast, SameRecipeSameBitsForAnyNumberOfThreads) {
  std::string first;
  for (const int threads : {1, 2, 3}) {
    const auto backend = make_cpu_backend(threads);
    TrainingRun run(small_forecast(), *backend);
    train_to(run, 20);
    if (first.empty()) first = run.trainer().checksum();
    EXPECT_EQ(run.trainer().checksum(), first);
    EXPECT_EQ(run.trainer().memory().appended, 20);
    EXPECT_EQ(run.trainer().memory().rows.size(), 12u * 8u);
  }
}

TEST(Forecast, RewindsAndResumesExactlyWithItsMemory) {
  const auto backend = make_cpu_backend(2);
  TrainingRun run(small_forecast(), *backend);
  train_to(run, 9);
  const std::string at_nine = run.trainer().checksum();
  const Snapshot snapshot = run.snapshot();
  train_to(run, 30);
  const std::string at_thirty = run.trainer().checksum();
  run.go_to(3);
  run.go_to(9);
  EXPECT_EQ(run.trainer().checksum(), at_nine);
  run.go_to(30);
  EXPECT_EQ(run.trainer().checksum(), at_thirty);
  TrainingRun resumed(snapshot, *backend);
  EXPECT_EQ(resumed.trainer().checksum(), at_nine);
  train_to(resumed, 30);
  EXPECT_EQ(resumed.trainer().checksum(), at_thirty);
}

TEST(Forecast, LearnsTheBuiltInSeries) {
  const auto backend = make_cpu_backend(2);
  for (const char* model : {R"({"kind": "dlinear"})", R"({"kind": "spectral_memory", "d_model": 8, "n_heads": 2,
      "d_ff": 16, "e_layers": 1, "memory_tokens": 0})"}) {
    TrainingRun run(small_forecast(model), *backend);
    const ForecastScore before = run.trainer().score(32);
    train_to(run, 60);
    const ForecastScore after = run.trainer().score(32);
    EXPECT_LT(after.mse, 0.8 * before.mse) << model;
    EXPECT_EQ(after.windows, 32);
    EXPECT_TRUE(std::isfinite(after.mae));
  }
}

TEST(Forecast, ShowsItsWindowsAndItsMemory) {
  const auto backend = make_cpu_backend(2);
  AnalysedRun analysed({small_forecast(), std::nullopt}, *backend);
  analysed.go_to(15);
  analysed.advance(Analysis::spectra, Budget::whole);
  analysed.advance(Analysis::trace, Budget::whole);
  analysed.advance(Analysis::inspected, Budget::whole);
  const Observation now = analysed.describe();
  ASSERT_TRUE(now.forecast && now.trajectory);
  EXPECT_EQ(now.forecast->step, 15);
  EXPECT_EQ(now.trajectory->width, 8);
  const ForecastView& view = *now.forecast;
  ASSERT_EQ(view.windows.size(), 4u);
  ASSERT_EQ(view.windows[0].channels.size(), 3u);
  EXPECT_EQ(view.windows[0].channels[0].input.size(), 24u);
  EXPECT_EQ(view.windows[0].channels[0].prediction.size(), 6u);
  EXPECT_NEAR(view.windows[0].channels[1].input[0], 20.0, 8.0) << "in the series' own unit";
  ASSERT_TRUE(now.memory);
  EXPECT_EQ(now.memory->tokens, 2);
  EXPECT_EQ(now.memory->history_rows, 12);
  EXPECT_EQ(now.memory->eigenvalues.size(), 4u);
  ASSERT_EQ(now.memory->attention.size(), 1u);
  for (const std::vector<double>& row : now.memory->attention[0].is_read) {
    EXPECT_GT(row[0] + row[1], 0.0);
    EXPECT_LT(row[0] + row[1], 1.0);
  }
  for (const ForecastWindow& window : view.windows) {
    EXPECT_TRUE(std::isfinite(window.mse_without_memory));
    EXPECT_NE(window.mse_without_memory, window.mse) << "the tokens take part";
  }
  const std::string before = analysed.trainer().checksum();
  analysed.advance(Analysis::trace, Budget::whole);
  EXPECT_TRUE(now.memory->is_of_error);
  ASSERT_EQ(now.memory->change_without.size(), 4u);
  EXPECT_NE(now.memory->change_without[0], 0) << "the first mode takes part";
  // No token at all is what each window is without memory.
  double with = 0, without = 0;
  for (const ForecastWindow& window : now.forecast->windows) {
    with += window.mse;
    without += window.mse_without_memory;
  }
  ASSERT_EQ(now.memory->less.size(), 3u);
  EXPECT_NEAR(now.memory->less[1].change[0], without / with - 1, 1e-9);
  EXPECT_EQ(now.memory->pooling.size(), static_cast<std::size_t>(view.input_length));
  EXPECT_EQ(analysed.describe().forecast->windows[0].mse, view.windows[0].mse) << "the memory is back";
  EXPECT_EQ(analysed.trainer().checksum(), before);
  analysed.choose_inspected({{"index", 5}});
  analysed.advance(Analysis::trace, Budget::whole);
  EXPECT_EQ(analysed.describe().forecast->windows[0].index, 5);
}

TEST(Forecast, TrainingWindowsComeOnceAnEpoch) {
  const auto task = make_task({{"kind", "forecast"}, {"length", 24}, {"horizon", 6}});
  const SeriesWindows& windows = *task->windows();
  const std::int64_t count = windows.count(SeriesPart::train);
  std::vector<int> seen(static_cast<std::size_t>(count), 0);
  for (std::int64_t i = 0; i < count; ++i) ++seen[static_cast<std::size_t>(windows.training_window(9, i))];
  for (const int times : seen) EXPECT_EQ(times, 1);
}

// A bump's sign holds for eight bumps, the last one to the end of the series; training reads along the series.
TEST(Forecast, TheSignOfADriftingSeriesStandsInNoWindowBeforeItsBump) {
  const auto task = make_task({{"kind", "forecast"}, {"path", "drifting"}, {"length", 24}, {"horizon", 24}});
  const SeriesWindows& windows = *task->windows();
  const std::int64_t count = windows.count(SeriesPart::train);
  for (const std::int64_t i : {std::int64_t{0}, std::int64_t{77}, count - 1, count + 5})
    EXPECT_EQ(windows.training_window(9, static_cast<std::uint64_t>(i)), i % count) << "in the order of time";
  std::vector<float> input(24), truth(24);
  const auto bump = [&](SeriesPart part, std::int64_t first) {
    windows.write(part, first, input.data(), truth.data());
    const auto largest = std::ranges::max_element(truth, {}, [](float x) { return std::abs(x); });
    for (const float x : input) EXPECT_LT(std::abs(x), 0.7f * std::abs(*largest)) << first;
    return *largest > 0;
  };
  std::set<bool> signs, last;
  for (std::int64_t number = 8; number < 250; ++number) {
    const bool sign = bump(SeriesPart::train, 48 * number - 12);
    EXPECT_EQ(sign, bump(SeriesPart::train, 48 * (number - number % 8) - 12)) << number;
    signs.insert(sign);
  }
  EXPECT_EQ(signs.size(), 2u);
  for (std::int64_t number = 0; number < 90; ++number) last.insert(bump(SeriesPart::test, 48 * number + 12));
  EXPECT_EQ(last.size(), 1u);
}

TEST(Forecast, SaysWhatDoesNotFit) {
  const auto backend = make_cpu_backend(1);
  Recipe recipe = small_forecast();
  recipe.task = {{"kind", "sysprompt"}};
  EXPECT_THROW(Trainer(recipe, *backend), Error);
  recipe = small_forecast();
  recipe.task["length"] = 5000;  // longer than the built-in series is for this horizon
  EXPECT_THROW(Trainer(recipe, *backend), Error);
}

}  // namespace
}  // namespace afterglow
