// A number over training is, at each kept step, what the run showed there.
#include <gmock/gmock.h>

#include "core/engine/analyses/studies/studies_view.h"
#include "core/engine/observation/run_numbers.h"
#include "core/engine/session/analysed_run.h"
#include "core/io/error.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

TEST(OverTraining, IsTheNumberThatTheRunShowedAtEachKeptStep) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  std::map<double, double> shown;
  for (int step = 0; step <= 22; ++step) {
    analysed.go_to(step);
    const Observation now = analysed.observe(set_of(Analysis::spectra));
    shown[step] = largest_kappa(*now.spectra);
  }
  EXPECT_FALSE(analysed.has_work(Analysis::over_training));
  analysed.ask({"over_training", R"({"number": "kappa"})"_json});
  const auto view = analysed.observe(set_of(Analysis::over_training)).over_training;
  ASSERT_TRUE(view);
  EXPECT_EQ(view->missing, 0u);
  EXPECT_EQ(view->step.size(), analysed.history().kept()->size());
  EXPECT_TRUE(std::ranges::is_sorted(view->step));
  ASSERT_GE(view->step.size(), 2u);
  for (std::size_t i = 0; i < view->step.size(); ++i) EXPECT_EQ(view->value[i], shown[view->step[i]]);
  analysed.go_to(36);
  ASSERT_GT(analysed.history().kept()->back().step, 22);
  EXPECT_TRUE(analysed.has_work(Analysis::over_training)) << "it follows the run";
  EXPECT_EQ(analysed.observe(set_of(Analysis::over_training)).over_training->step.back(),
            static_cast<double>(analysed.history().kept()->back().step));
  EXPECT_EQ(analysed.trainer().checksum(), [&] {
    AnalysedRun plain({small_recipe(), std::nullopt}, *backend);
    plain.go_to(36);
    return plain.trainer().checksum();
  }());
}

/// Cells of a grid, read-outs and ablations are numbers as any other.
TEST(OverTraining, FollowsWhatInterventionsFind) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  for (const char* number : {"patch.1_ska_c.12", "patch.1_ska_keys.3.attributed", "patch.path.0_mamba2.1_ska",
                             "ablation.1_ska.lost", "readout.shuffled.3", "logit_lens.out.9", "transplant.share"}) {
    const AnalysisSet analyses = family_of(number)->analyses;
    std::map<double, double> shown;
    AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
    for (const int step : {0, 10, 20}) {
      analysed.go_to(step);
      const std::vector<NamedNumber> numbers = numbers_of(analysed.observe(analyses));
      const auto found = std::ranges::find(numbers, number, &NamedNumber::name);
      ASSERT_NE(found, numbers.end()) << number;
      shown[step] = found->value.number;
    }
    analysed.ask({"over_training", nlohmann::json{{"number", number}}});
    const auto view = analysed.observe(set_of(Analysis::over_training)).over_training;
    ASSERT_TRUE(view);
    EXPECT_EQ(view->missing, 0u);
    int compared = 0;
    for (std::size_t i = 0; i < view->step.size(); ++i) {
      if (!shown.contains(view->step[i])) continue;
      EXPECT_THAT(view->value[i], testing::NanSensitiveDoubleEq(shown[view->step[i]])) << number << view->step[i];
      ++compared;
    }
    EXPECT_GT(compared, 0) << number;
  }
}

TEST(OverTraining, ComesInPiecesAndBeginsAnewWithAnotherPair) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  analysed.go_to(20);
  analysed.ask({"over_training", R"({"number": "patch.1_ska_memory.12"})"_json});
  analysed.advance(Analysis::over_training);
  EXPECT_TRUE(analysed.has_work(Analysis::over_training));
  const auto first = analysed.observe(set_of(Analysis::over_training)).over_training;
  ASSERT_FALSE(first->value.empty());
  analysed.ask({"pair", R"({"next": true})"_json});
  EXPECT_FALSE(analysed.describe().over_training) << "of another pair";
  const auto second = analysed.observe(set_of(Analysis::over_training)).over_training;
  EXPECT_EQ(second->step, first->step);
  EXPECT_NE(second->value, first->value);
}

TEST(OverTraining, IsDroppedWithThePastThatItMeasured) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  analysed.go_to(25);
  ASSERT_GT(analysed.history().kept()->back().step, 5);
  EXPECT_THROW(analysed.ask({"over_training", R"({"number": "no_such_number"})"_json}), Error);
  EXPECT_THROW(analysed.ask({"over_training", R"({"what": 1})"_json}), Error);
  analysed.ask({"over_training"});
  ASSERT_TRUE(analysed.observe(set_of(Analysis::over_training)).over_training);
  analysed.go_to(2);
  EXPECT_TRUE(analysed.describe().over_training);
  analysed.set("learning_rate", 1e-2);
  analysed.forget_results(2);
  EXPECT_FALSE(analysed.describe().over_training);
}

}  // namespace
}  // namespace afterglow
