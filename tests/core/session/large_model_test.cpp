// What is reported and done of analyses that take long: their parts, what they hold while no panel shows them, and the
// share that a large model is asked by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/engine/analyses/influence/influence_view.h"
#include "core/engine/analyses/requested_study.h"
#include "core/engine/observation/causes_view.h"
#include "core/engine/session/analysed_run.h"
#include "core/engine/session/analysis_table.h"
#include "core/io/error.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

struct Analysed {
  Analysed() : backend(make_cpu_backend(1)), run({parse_recipe(small_recipe_json(), "small"), std::nullopt}, *backend) {
    run.train_step();
  }
  std::unique_ptr<Backend> backend;
  AnalysedRun run;
};

TEST(LargeModel, APartOfAnAnalysisIsMadeAndGoesOnWhereItStopped) {
  Analysed test;
  test.run.choose_part({{"analysis", "patch grid"}, {"part", 0.0}});
  const AnalysisSet patch = set_of(Analysis::patch);
  EXPECT_EQ(test.run.observe(patch).patch, nullptr) << "it waits to be asked for";

  test.run.choose_part({{"analysis", "patch grid"}, {"part", 0.3}});
  const auto part = test.run.observe(patch).patch;
  ASSERT_NE(part, nullptr);
  EXPECT_FALSE(part->is_complete);
  EXPECT_TRUE(test.run.is_current(Analysis::patch)) << "all that was asked for is there";

  test.run.choose_part({{"analysis", "patch grid"}, {"part", 1.0}});
  const auto whole = test.run.observe(patch).patch;
  EXPECT_TRUE(whole->is_complete);
  Analysed at_once;
  EXPECT_EQ(at_once.run.observe(patch).patch->exact, whole->exact);
}

TEST(LargeModel, OfTheRaceTheLayersThatHaveArrivedAreShown) {
  Analysed test;
  test.run.choose("influence", {{"race", {{"tokens", 64}, {"kinds", {"mamba2", "sessa"}}}}});
  const AnalysisSet race = set_of(Analysis::race);
  const auto entries = [&](double part) {
    test.run.choose_part({{"analysis", "race"}, {"part", part}});
    return test.run.observe(race).race;
  };
  EXPECT_TRUE(test.run.has_parts(Analysis::race));
  const auto part = entries(0.15);
  EXPECT_FALSE(part->is_complete);
  EXPECT_LT(part->entries.size(), static_cast<std::size_t>(part->contestants));
  EXPECT_FALSE(part->entries.empty());
  const auto whole = entries(1);
  EXPECT_TRUE(whole->is_complete);
  EXPECT_EQ(whole->entries.size(), static_cast<std::size_t>(whole->contestants));

  test.run.train_step();
  EXPECT_EQ(entries(0.3)->step, 2) << "a part of a later step is shown, too";
}

TEST(LargeModel, ANumberOverTrainingTakesWhatItNeedsAtEveryKeptState) {
  Analysed test;
  AnalysisSubject subject;
  subject.run = &test.run;
  const Pace pace{1e-3, 1e-2};
  const auto seconds = [&](const std::string& number) {
    info_of(Analysis::over_training).settings.replay(subject, {{"number", number}});
    return seconds_of(info_of(Analysis::over_training).work(subject), pace);
  };
  const double weights = seconds("spectral_radius");
  EXPECT_GT(weights, 0);
  EXPECT_LT(weights, seconds("probe.accuracy"));
  EXPECT_FALSE(test.run.has_parts(Analysis::over_training));
}

TEST(LargeModel, ThePartsTravelInTheRecipe) {
  Analysed test;
  test.run.choose_part({{"analysis", "read-out"}, {"part", 0.25}});
  const auto backend = make_cpu_backend(1);
  AnalysedRun again({test.run.recipe(), std::nullopt}, *backend);
  EXPECT_EQ(again.describe().work[place_of(Analysis::readout)].part, 0.25);
  try {
    again.choose_part({{"analysis", "nothing"}, {"part", 1}});
    ADD_FAILURE() << "it was taken for an analysis";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("'nothing'; there are spectra, "));
  }
  EXPECT_THROW(again.choose_part({{"analysis", "read-out"}, {"part", 2}}), Error);
}

TEST(LargeModel, WhatNoPanelShowsHoldsItsResultAlone) {
  Analysed test;
  const std::size_t before = test.backend->held_bytes();
  const AnalysisSet shown = Analysis::patch | Analysis::readout;
  const auto found = test.run.observe(shown);
  ASSERT_GT(test.backend->held_bytes(), before);
  test.run.release(shown);
  EXPECT_LE(test.backend->held_bytes(), before);
  const Observation kept = test.run.describe();
  EXPECT_EQ(kept.patch, found.patch);
  EXPECT_TRUE(test.run.is_current(Analysis::patch));
  EXPECT_FALSE(test.run.has_work(Analysis::readout));

  test.run.train_step();
  EXPECT_TRUE(test.run.has_work(Analysis::patch));
  EXPECT_EQ(test.run.observe(shown).patch->step, 2);
}

TEST(LargeModel, TheShareThatIsMadeByItselfFallsWithTheSize) {
  const ModelWork work{1e5, 0, 1e-5};
  EXPECT_EQ(first_part(work, 1000), 1);
  const double part = first_part(work, 130'000'000);
  EXPECT_GT(part, 0);
  EXPECT_LT(part, 0.1);
  EXPECT_LT(first_part(work, 1'000'000'000), part);
  EXPECT_EQ(first_part({1e5, 0, 1}, 130'000'000), 0) << "as a whole it would take too long";
}

TEST(LargeModel, EveryAnalysisThatGrowsWithTheModelTellsItsWork) {
  Analysed test;
  AnalysisSubject subject;
  subject.run = &test.run;
  for (const AnalysisInfo& row : analysis_table()) {
    if (!row.work) continue;
    const ModelWork work = row.work(subject);
    EXPECT_GT(work.tokens + work.steps, 0) << row.name;
    EXPECT_LE(work.first, 1) << row.name;
    EXPECT_GT(seconds_of(work, {1e-3, 1e-2}), 0) << row.name;
  }
}

}  // namespace
}  // namespace afterglow
