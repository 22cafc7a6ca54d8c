// Runs of other seeds laid over a forecast: mean and deviation from their snapshots, the recipe, what is refused.
#include "core/engine/analyses/forecast/forecast_ensemble.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/engine/session/analysed_run.h"
#include "core/io/error.h"
#include "core/io/json_file.h"
#include "tests/core/engine/small_forecaster.h"

namespace afterglow {
namespace {

using nlohmann::json;

Recipe seeded(std::uint64_t seed, int horizon = 6) {
  Recipe recipe = parse_recipe({{"model", small_forecaster()},
                                {"task", {{"kind", "forecast"}, {"length", 24}, {"horizon", horizon}}},
                                {"training", {{"steps", 20}, {"batch", 4}, {"learning_rate", 0.003}}}},
                               "test");
  recipe.seed = seed;
  return recipe;
}

class ForecastEnsembleTest : public testing::Test {
 protected:
  ForecastEnsembleTest() : folder(std::filesystem::temp_directory_path() / "afterglow_forecast_ensemble") {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
  }
  ~ForecastEnsembleTest() override { std::filesystem::remove_all(folder); }

  std::string trained(std::uint64_t seed, std::int64_t steps, int horizon = 6) {
    TrainingRun run(seeded(seed, horizon), *backend);
    run.go_to(steps);
    const auto path = folder / ("seed" + std::to_string(seed) + "_" + std::to_string(horizon) + ".safetensors");
    write_snapshot(path, run.snapshot());
    return path.string();
  }
  std::shared_ptr<const ForecastView> alone(const std::string& path, std::int64_t inspected) {
    TrainingRun run(read_snapshot(path), *backend);
    return view_forecast(run.trainer(), inspected);
  }
  static std::shared_ptr<const ForecastView> seen(AnalysedRun& analysed) {
    analysed.advance(Analysis::trace, Budget::whole);
    return analysed.describe().forecast;
  }

  std::filesystem::path folder;
  std::unique_ptr<Backend> backend = make_cpu_backend(2);
};

TEST_F(ForecastEnsembleTest, MeanAndDeviationAreThoseOfTheRunsOnTheSameWindows) {
  const std::string a = trained(1, 12), b = trained(2, 9), c = trained(3, 12);
  AnalysedRun analysed(open_saved_run(a), *backend);
  EXPECT_TRUE(seen(analysed)->runs.empty());
  EXPECT_TRUE(seen(analysed)->windows[0].channels[0].mean.empty());
  analysed.choose("compare_runs", {{"path", b}});
  analysed.choose("compare_runs", {{"path", c}});
  analysed.choose("compare_runs", {{"path", b}});  // is there already
  for (const std::int64_t inspected : {0, 5}) {
    analysed.choose_inspected({{"index", inspected}});
    const auto view = seen(analysed);
    EXPECT_THAT(view->runs, testing::ElementsAre("seed 1, step 12", "seed 2, step 9", "seed 3, step 12"));
    const auto one = alone(a, inspected), two = alone(b, inspected), three = alone(c, inspected);
    for (std::size_t w = 0; w < view->windows.size(); ++w) {
      for (std::size_t channel = 0; channel < 3; ++channel) {
        const ForecastChannel& got = view->windows[w].channels[channel];
        EXPECT_EQ(got.prediction, one->windows[w].channels[channel].prediction) << "the run itself stays";
        ASSERT_EQ(got.mean.size(), 6u);
        ASSERT_EQ(got.deviation.size(), 6u);
        for (std::size_t t = 0; t < 6; ++t) {
          const double x = one->windows[w].channels[channel].prediction[t],
                       y = two->windows[w].channels[channel].prediction[t],
                       z = three->windows[w].channels[channel].prediction[t], mean = (x + y + z) / 3;
          EXPECT_NEAR(got.mean[t], mean, 1e-12 * std::abs(mean));
          const double squares = (x - mean) * (x - mean) + (y - mean) * (y - mean) + (z - mean) * (z - mean);
          EXPECT_NEAR(got.deviation[t], std::sqrt(squares / 2), 1e-10);
          EXPECT_GT(got.deviation[t], 0.0);
        }
        EXPECT_THAT(got.mse_of_runs,
                    testing::ElementsAre(one->windows[w].channels[channel].mse, two->windows[w].channels[channel].mse,
                                         three->windows[w].channels[channel].mse));
      }
    }
  }
}

TEST_F(ForecastEnsembleTest, TheRecipeBringsTheRunsBackAndTrainingIsUntouched) {
  const std::string b = trained(2, 9);
  AnalysedRun analysed({seeded(1), std::nullopt}, *backend), plain({seeded(1), std::nullopt}, *backend);
  analysed.choose("compare_runs", {{"path", b}});
  analysed.go_to(8);
  plain.go_to(8);
  EXPECT_EQ(analysed.trainer().checksum(), plain.trainer().checksum());
  const auto view = seen(analysed);
  AnalysedRun reopened({parse_recipe(analysed.describe().recipe, "recipe"), std::nullopt}, *backend);
  reopened.go_to(8);
  EXPECT_EQ(seen(reopened)->windows[0].channels[1].deviation, view->windows[0].channels[1].deviation);
  analysed.choose("compare_runs", {{"paths", json::array()}});
  EXPECT_TRUE(seen(analysed)->runs.empty());
}

TEST_F(ForecastEnsembleTest, RefusesWhatDoesNotFitAndKeepsWhatIsThere) {
  const std::string b = trained(2, 9), longer = trained(3, 2, 7);
  AnalysedRun analysed({seeded(1), std::nullopt}, *backend);
  analysed.choose("compare_runs", {{"path", b}});
  const auto recipe = folder / "recipe.json";
  write_json(recipe, to_json(seeded(4)));
  for (const std::string& path : {longer, recipe.string(), (folder / "nothing.safetensors").string()}) {
    try {
      analysed.choose("compare_runs", {{"path", path}});
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      EXPECT_THAT(error.what(), testing::HasSubstr(std::filesystem::path(path).filename().string()));
    }
    EXPECT_EQ(seen(analysed)->runs.size(), 2u);
  }
  EXPECT_THROW(analysed.choose("compare_runs", {{"paths", {3}}}), Error);
  EXPECT_THROW(analysed.choose("compare_runs", {{"file", b}}), Error);
  AnalysedRun tokens({parse_recipe(find_preset("tiny").text, "tiny"), std::nullopt}, *backend);
  EXPECT_THROW(tokens.choose("compare_runs", {{"path", b}}), Error);
}

}  // namespace
}  // namespace afterglow
