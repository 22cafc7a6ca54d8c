// A number over training is, at each kept step, what the run showed there.
#include "core/engine/session/over_training.h"

#include <gmock/gmock.h>

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
  analysed.ask({"over_training", R"({"number": "kappa"})"});
  const auto view = analysed.observe(set_of(Analysis::over_training)).over_training;
  ASSERT_TRUE(view);
  EXPECT_EQ(view->missing, 0u);
  EXPECT_EQ(view->step.size(), analysed.run().history().kept()->size());
  EXPECT_TRUE(std::ranges::is_sorted(view->step));
  ASSERT_GE(view->step.size(), 2u);
  for (std::size_t i = 0; i < view->step.size(); ++i) EXPECT_EQ(view->value[i], shown[view->step[i]]);
  analysed.go_to(36);
  ASSERT_GT(analysed.run().history().kept()->back().step, 22);
  EXPECT_TRUE(analysed.has_work(Analysis::over_training)) << "it follows the run";
  EXPECT_EQ(analysed.observe(set_of(Analysis::over_training)).over_training->step.back(),
            static_cast<double>(analysed.run().history().kept()->back().step));
  EXPECT_EQ(analysed.run().trainer().checksum(), [&] {
    AnalysedRun plain({small_recipe(), std::nullopt}, *backend);
    plain.go_to(36);
    return plain.run().trainer().checksum();
  }());
}

TEST(OverTraining, IsDroppedWithThePastThatItMeasured) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  analysed.go_to(25);
  ASSERT_GT(analysed.run().history().kept()->back().step, 5);
  EXPECT_THROW(analysed.ask({"over_training", R"({"number": "no_such_number"})"}), Error);
  EXPECT_THROW(analysed.ask({"over_training", R"({"what": 1})"}), Error);
  analysed.ask({"over_training", "{}"});
  ASSERT_TRUE(analysed.observe(set_of(Analysis::over_training)).over_training);
  analysed.go_to(2);
  EXPECT_TRUE(analysed.describe().over_training);
  analysed.run().set("learning_rate", 1e-2);
  analysed.forget_results(2);
  EXPECT_FALSE(analysed.describe().over_training);
}

}  // namespace
}  // namespace afterglow
