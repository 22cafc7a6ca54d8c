// Stop when: training pauses where a condition begins to hold, and changes by it in nothing.
#include "core/engine/session/stop_condition.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <limits>

#include "core/engine/session/analysed_run.h"
#include "core/io/error.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

using ::testing::HasSubstr;

/// The steps at which training would stop.
std::vector<std::int64_t> stops_of(AnalysedRun& analysed, std::int64_t steps) {
  std::vector<std::int64_t> stops;
  while (analysed.step() < steps) {
    if (!analysed.train_step()) break;
    if (analysed.stop_reason()) stops.push_back(analysed.step());
  }
  return stops;
}

TEST(StopCondition, StopsAtTheFirstStepThatFulfilsItAndNotAgainWhileItHolds) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun plain({small_recipe(), std::nullopt}, *backend);
  while (plain.step() < 20) ASSERT_TRUE(plain.train_step());
  const RunCurves curves = plain.curves();
  const double wanted = curves.gradient_norm[11];
  std::int64_t first = 0;
  for (std::int64_t step = 20; step > 0; --step) {
    if (curves.gradient_norm[static_cast<std::size_t>(step - 1)] <= wanted) first = step;
  }
  AnalysedRun stopping({small_recipe(), std::nullopt}, *backend);
  stopping.choose_stop({{"condition", "gradient_norm <= " + nlohmann::json(wanted).dump()}});
  const std::vector<std::int64_t> stops = stops_of(stopping, 20);
  ASSERT_FALSE(stops.empty());
  EXPECT_EQ(stops.front(), first);
  for (std::size_t i = 1; i < stops.size(); ++i)
    EXPECT_GT(curves.gradient_norm[static_cast<std::size_t>(stops[i] - 2)], wanted) << "it had ceased to hold before";
  EXPECT_EQ(stopping.trainer().checksum(), plain.trainer().checksum());
}

TEST(StopCondition, ReadsNumbersOfAnalysesAndOfTheMomentAtWhichItWasGiven) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(analysed.train_step());
  analysed.choose_stop({{"condition", "kappa > 0 and step >= 2 * step@start"}, {"every", 2}});
  EXPECT_EQ(stops_of(analysed, 12), std::vector<std::int64_t>{8});
  analysed.choose_stop(nlohmann::json::object());
  EXPECT_TRUE(stops_of(analysed, 16).empty()) << "taken back";
}

TEST(StopCondition, TravelsWithTheRecipe) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  analysed.choose_stop({{"condition", "step >= 3"}});
  AnalysedRun again({analysed.recipe(), std::nullopt}, *backend);
  EXPECT_EQ(stops_of(again, 6), std::vector<std::int64_t>{3});
  const std::vector<Mark> marks = again.describe().runs.back().marks;
  ASSERT_EQ(marks.size(), 1u) << "every figure of the curves shows it";
  EXPECT_EQ(marks[0].step, 3);
  EXPECT_EQ(marks[0].text, "stopped: step >= 3");
}

/// The marks of the curves that are drawn from this snapshot, written to a file and read again.
std::vector<Mark> marks_from(const TrainingRun& run) {
  const auto path = std::filesystem::temp_directory_path() / "afterglow_stops_test.safetensors";
  write_snapshot(path, run.snapshot());
  const SavedRun saved = open_saved_run(path);
  std::filesystem::remove(path);
  const auto backend = make_cpu_backend(1);
  return AnalysedRun(saved, *backend).describe().runs.back().marks;
}

TEST(Stops, AreInTheSnapshotAndInTheCurvesThatAreDrawnFromIt) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  analysed.choose_stop({{"condition", "step >= 3"}});
  EXPECT_EQ(stops_of(analysed, 6), std::vector<std::int64_t>{3});
  const std::vector<Mark> marks = marks_from(analysed);
  ASSERT_EQ(marks.size(), 1u);
  EXPECT_EQ(marks[0].step, 3);
  EXPECT_EQ(marks[0].text, "stopped: step >= 3");
}

TEST(Stops, AreDroppedWithAFutureThatIsChanged) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  analysed.choose_stop({{"condition", "step >= 3"}});
  stops_of(analysed, 6);
  analysed.go_to(2);
  EXPECT_TRUE(analysed.curves().marks.empty()) << "it comes later";
  EXPECT_EQ(analysed.whole_curves().marks.size(), 1u);
  stops_of(analysed, 6);
  EXPECT_EQ(analysed.stops().size(), 1u) << "coming by again is the same stop";
  analysed.go_to(2);
  analysed.choose_stop(nlohmann::json::object());
  analysed.set("clip", 0.5);
  stops_of(analysed, 6);
  const std::vector<Mark> marks = marks_from(analysed);
  ASSERT_EQ(marks.size(), 1u);
  EXPECT_THAT(marks[0].text, HasSubstr("0.5")) << "the change alone";
}

TEST(Stops, OfAStepThatWasNotFiniteStayUntilAnotherFutureBeginsThere) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(analysed.train_step());
  ParameterStore& store = analysed.trainer().parameters();
  const Parameter* weight = store.find("layers.1.ska.q_proj.weight");
  ASSERT_NE(weight, nullptr);
  const std::vector<double> values = store.download(weight->value);
  std::vector<double> broken = values;
  broken[0] = std::numeric_limits<double>::quiet_NaN();
  store.upload(*weight, broken);
  EXPECT_FALSE(analysed.train_step());
  store.upload(*weight, values);
  const std::vector<Mark> marks = marks_from(analysed);
  ASSERT_EQ(marks.size(), 1u);
  EXPECT_EQ(marks[0].step, 3);
  EXPECT_EQ(marks[0].text, "stopped: step 4 was not finite");
  analysed.set("clip", 0.5);
  EXPECT_TRUE(analysed.stops().empty());
}

TEST(Stops, ComeByThemselvesWhereFloat32CannotSolveAndHaveANameForConditions) {
  nlohmann::json recipe = small_recipe_json();
  recipe["model"]["blocks"][1]["mixer"]["ridge"] = 1e-9;
  recipe["model"]["blocks"][1]["mixer"]["r"] = 20;  // keys of a stream 16 wide leave four directions empty
  const auto backend = make_cpu_backend(1);
  const auto first_stop = [&](const nlohmann::json& of, const char* condition) {
    AnalysedRun analysed({parse_recipe(of, "ill conditioned"), std::nullopt}, *backend);
    if (condition) analysed.choose_stop({{"condition", condition}});
    stops_of(analysed, 20);
    return analysed.stops().empty() ? Stop() : analysed.stops().front();
  };
  const Stop own = first_stop(recipe, nullptr);
  EXPECT_EQ(own.step, 16) << "the first step after which the run reads its modes";
  EXPECT_THAT(own.reason, HasSubstr("float32 could not factorise the ridge system of head 0"));
  EXPECT_EQ(first_stop(small_recipe_json(), nullptr).step, 0) << "a ridge that suffices";
  EXPECT_EQ(first_stop(small_recipe_json(), "kappa > 1e-9 * kappa_limit").step, 0) << "it held from the start";
  EXPECT_EQ(kappa_limit("fp32"), 16777216.0);
  EXPECT_EQ(kappa_limit("bf16"), 256.0);
}

TEST(StopCondition, RefusesWhatItCannotJudge) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  const auto refusal = [&](const char* condition) -> std::string {
    try {
      analysed.choose_stop({{"condition", condition}});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal("loss <"), HasSubstr("one side of a comparison is missing"));
  EXPECT_THAT(refusal("no_such_number > 1"), HasSubstr("no number \"no_such_number\""));
  EXPECT_THAT(refusal("loss < loss@3"), HasSubstr("after @ write `start`"));
  EXPECT_TRUE(stops_of(analysed, 3).empty()) << "nothing was chosen";
}

}  // namespace
}  // namespace afterglow
