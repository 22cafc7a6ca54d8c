// Stop when: training pauses where a condition begins to hold, and changes by it in nothing.
#include "core/engine/session/stop_condition.h"

#include <gmock/gmock.h>

#include "core/engine/session/analysed_run.h"
#include "core/io/error.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

using ::testing::HasSubstr;

/// The steps at which training would stop.
std::vector<std::int64_t> stops_of(AnalysedRun& analysed, std::int64_t steps) {
  std::vector<std::int64_t> stops;
  while (analysed.run().step() < steps) {
    if (!analysed.train_step()) break;
    if (analysed.stop_reason()) stops.push_back(analysed.run().step());
  }
  return stops;
}

TEST(StopCondition, StopsAtTheFirstStepThatFulfilsItAndNotAgainWhileItHolds) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun plain({small_recipe(), std::nullopt}, *backend);
  while (plain.run().step() < 20) ASSERT_TRUE(plain.train_step());
  const RunCurves curves = plain.run().curves();
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
  EXPECT_EQ(stopping.run().trainer().checksum(), plain.run().trainer().checksum());
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
  AnalysedRun again({analysed.run().recipe(), std::nullopt}, *backend);
  EXPECT_EQ(stops_of(again, 6), std::vector<std::int64_t>{3});
  const std::vector<Mark> marks = again.describe().runs.back().marks;
  ASSERT_EQ(marks.size(), 1u) << "every figure of the curves shows it";
  EXPECT_EQ(marks[0].step, 3);
  EXPECT_EQ(marks[0].text, "stopped: step >= 3");
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
  EXPECT_THAT(refusal("loss < loss@3"), HasSubstr("behind @ stands `start`"));
  EXPECT_TRUE(stops_of(analysed, 3).empty()) << "nothing was chosen";
}

}  // namespace
}  // namespace afterglow
