// All analyses together keep to their share of the time, the first seconds show, and what the window opens comes at
// once.
#include "core/engine/session/analysis_scheduler.h"

#include <gtest/gtest.h>

#include "core/engine/analyses/influence/influence_view.h"
#include "core/engine/session/analysed_run.h"
#include "tests/core/engine/small_forecaster.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

bool is_due(const AnalysisThrottle& throttle, double share, double now, double max_cost = 1e9) {
  return now >= throttle.due_at(share, max_cost);
}

/// How often an analysis of `cost` seconds is made from `begin` to `end`, when the throttle is asked a hundred times a
/// second.
int count_made(AnalysisThrottle& throttle, double cost, double share, double begin, double end) {
  int count = 0;
  for (double now = begin; now < end; now += 0.01) {
    if (!is_due(throttle, share, now)) continue;
    throttle.record(now, now + cost);
    now += cost;
    ++count;
  }
  return count;
}

TEST(AnalysisTable, HasOneRowForEachAnalysisSortedByCost) {
  AnalysisSet seen = 0;
  AnalysisCost before = AnalysisCost::quick;
  for (const AnalysisInfo& row : analysis_table()) {
    EXPECT_FALSE(has(seen, row.analysis)) << row.name;
    EXPECT_GE(row.cost, before) << row.name;
    EXPECT_GT(row.weight, 0) << row.name;
    EXPECT_EQ(&info_of(row.analysis), &row) << row.name;
    before = row.cost;
    seen = seen | row.analysis;
  }
  EXPECT_EQ(std::popcount(seen), static_cast<int>(analysis_count));
  EXPECT_EQ(seen & all_analyses, all_analyses);
}

TEST(AnalysisTable, EveryRowFindsSomethingOfThisStepAndForgetsIt) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun analysed({parse_recipe(quickly_measured_recipe_json(), "quick"), std::nullopt}, *backend);
  ASSERT_TRUE(analysed.train_step());
  EXPECT_EQ(analysed.describe().current, 0u);
  for (const AnalysisInfo& row : analysis_table()) {
    EXPECT_FALSE(analysed.is_current(row.analysis)) << row.name;
    // Trainings and a network of their own, which belong to no step.
    constexpr AnalysisSet own = Analysis::phase_map | Analysis::blame | Analysis::microscope | Analysis::bisect |
                                Analysis::over_training | Analysis::retrieval | Analysis::costs;
    if (has(own, row.analysis)) continue;
    analysed.advance(row.analysis, Budget::whole);
    EXPECT_TRUE(analysed.is_current(row.analysis)) << row.name;
  }
  EXPECT_EQ(analysed.describe().current & all_analyses, all_analyses);
  analysed.forget_results();
  EXPECT_EQ(analysed.describe().current, 0u);
  const Observation found = analysed.observe(all_analyses);
  EXPECT_EQ(found.current, all_analyses);
  EXPECT_TRUE(found.spectra && found.trace && found.token_weights && found.inspected && found.solvers && found.theory &&
              found.depth && found.influence);
  EXPECT_EQ(found.checksum, analysed.trainer().checksum());
  ASSERT_TRUE(analysed.train_step());
  EXPECT_EQ(analysed.describe().current, 0u) << "of a step before";
}

TEST(AnalysisTable, AForecasterLacksNothing) {
  const auto backend = make_cpu_backend(1);
  const Recipe recipe = parse_recipe({{"model", small_forecaster()},
                                      {"task", {{"kind", "forecast"}, {"length", 24}, {"horizon", 6}}},
                                      {"training", {{"steps", 20}, {"batch", 4}}}},
                                     "series");
  AnalysedRun analysed({recipe, std::nullopt}, *backend);
  EXPECT_EQ((analysed.describe().current | Analysis::trace) & all_analyses, all_analyses);
  EXPECT_FALSE(analysed.is_current(Analysis::trace));
  const Observation found = analysed.observe(all_analyses);
  EXPECT_EQ(found.current & all_analyses, all_analyses);
  EXPECT_TRUE(found.forecast);
  EXPECT_FALSE(found.spectra || found.trace || found.inspected || found.influence);
}

TEST(AnalysisScheduler, SharesTheTimeAmongWhatIsRequested) {
  double total = 0;
  for (const AnalysisInfo& row : analysis_table()) total += AnalysisScheduler::part_of(row.analysis, ~AnalysisSet{0});
  EXPECT_DOUBLE_EQ(total, 1);
  EXPECT_DOUBLE_EQ(AnalysisScheduler::part_of(Analysis::trace, Analysis::trace | Analysis::inspected), 0.5);
  EXPECT_DOUBLE_EQ(AnalysisScheduler::part_of(Analysis::influence, Analysis::influence | Analysis::theory), 0.75);
}

TEST(AnalysisThrottle, InTheLongRunAnAnalysisKeepsToItsShare) {
  AnalysisThrottle throttle(0.25);
  throttle.begin(0);
  count_made(throttle, 0.05, 0.01, 0, 1000);
  EXPECT_NEAR(count_made(throttle, 0.05, 0.01, 1000, 2000), 1000 * 0.01 / 0.05, 3);
}

TEST(AnalysisThrottle, ACheapAnalysisKeepsToItsInterval) {
  AnalysisThrottle throttle(0.25);
  throttle.begin(0);
  EXPECT_NEAR(count_made(throttle, 0, 0.01, 0, 100), 400, 20);
}

TEST(AnalysisThrottle, TheFirstSecondsShowByOneAtTwiceTheAgeEach) {
  AnalysisThrottle throttle(0.25);
  throttle.begin(100);
  EXPECT_TRUE(is_due(throttle, 0.01, 100));
  throttle.record(100, 101);  // the first one sets up what later ones use
  EXPECT_FALSE(is_due(throttle, 0.01, 100.2));
  EXPECT_TRUE(is_due(throttle, 0.01, 100.25));
  EXPECT_EQ(count_made(throttle, 0.05, 0.01, 100.25, 105), 5);  // at 0.25, 0.5, 1, 2 and 4 seconds
  EXPECT_LE(count_made(throttle, 0.05, 0.01, 105, 115), 3);
}

TEST(AnalysisThrottle, WhatIsFeltKeepsToItsShareFromTheSecondOn) {
  for (const bool is_felt : {false, true}) {
    AnalysisThrottle throttle(0.25);
    throttle.begin(0);
    throttle.record(0, 0.5);
    EXPECT_TRUE(is_due(throttle, 0.01, 0.25, 0.1)) << "the first one may have set something up";
    throttle.record(0.25, is_felt ? 0.45 : 0.3);
    EXPECT_EQ(is_due(throttle, 0.01, 1, 0.1), !is_felt);
    EXPECT_TRUE(is_due(throttle, 0.01, 20.25, 0.1));
    EXPECT_TRUE(is_due(throttle, 0.01, 1)) << "where no training is meanwhile";
  }
}

TEST(AnalysisThrottle, WhatTakesSecondsStopsTheTrainingOnceAtTheBeginning) {
  AnalysisThrottle throttle(0.25);
  throttle.begin(0);
  EXPECT_TRUE(is_due(throttle, 0.01, 0));
  throttle.record(0, 4);
  EXPECT_TRUE(throttle.takes(3.9));
  EXPECT_FALSE(is_due(throttle, 0.01, 399));
  EXPECT_TRUE(is_due(throttle, 0.01, 400));
}

TEST(AnalysisThrottle, WhatBeginsIsDueAtOnce) {
  AnalysisThrottle throttle(0.25);
  throttle.record(500, 501);
  EXPECT_FALSE(is_due(throttle, 0.01, 510));
  throttle.begin(510);
  EXPECT_TRUE(is_due(throttle, 0.01, 510));
}

/// A scheduler with a clock that stands where the test puts it, and a run of a few steps.
struct Scheduled {
  Scheduled() { analysed.go_to(3); }
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun analysed{{parse_recipe(quickly_measured_recipe_json(), "quick"), std::nullopt}, *backend};
  double now = 1000, tick = 0;  // between two looks at the clock
  std::string warning;
  AnalysisScheduler scheduler{[this] { return now += tick; }, [this](const std::string& text) { warning = text; }};
};

TEST(AnalysisScheduler, WhatIsSlowSharesTheTimeOfAllEvenly) {
  const auto seconds_until_due = [](AnalysisSet requested) {
    Scheduled test;
    test.scheduler.request(requested);
    test.scheduler.begin(requested);
    test.tick = 3;  // an analysis takes as long, by this clock
    test.scheduler.update_due(test.analysed, true);
    test.tick = 0;
    test.analysed.go_to(4);
    const double made = test.now;
    while (!test.analysed.is_current(Analysis::trace)) {
      test.now += 1;
      test.scheduler.update_due(test.analysed, true);
    }
    return test.now - made;
  };
  EXPECT_NEAR(seconds_until_due(set_of(Analysis::trace)), 3 / 0.025, 10);
  EXPECT_NEAR(seconds_until_due(Analysis::spectra | Analysis::trace), 2 * 3 / 0.025, 10);
}

TEST(AnalysisScheduler, AtRestQuickAnalysesComeTogetherAndTheOthersOneByOne) {
  Scheduled test;
  EXPECT_TRUE(test.scheduler.update_due(test.analysed, false));
  EXPECT_EQ(test.analysed.describe().current, Analysis::spectra | Analysis::trace);
  AnalysisSet expected = Analysis::spectra | Analysis::trace;
  for (const Analysis next : {Analysis::inspected, Analysis::solvers, Analysis::theory}) {
    EXPECT_TRUE(test.scheduler.update_due(test.analysed, false));
    EXPECT_EQ(test.analysed.describe().current, expected = expected | next);
  }
  EXPECT_FALSE(test.scheduler.update_due(test.analysed, false));
  EXPECT_TRUE(test.scheduler.has_pieces(test.analysed, false));
  EXPECT_FALSE(test.scheduler.has_pieces(test.analysed, true)) << "during training the throttle decides";
  for (int i = 0; i < 10'000 && test.scheduler.has_pieces(test.analysed, false); ++i)
    test.scheduler.advance_pieces(test.analysed);
  EXPECT_EQ(test.analysed.describe().current, all_analyses);
  EXPECT_EQ(test.warning, "");
}

TEST(AnalysisScheduler, WhileCommandsComeOnlyQuickAnswersFollow) {
  Scheduled test;
  test.scheduler.update_due(test.analysed, false);
  test.scheduler.note_command();
  EXPECT_TRUE(test.scheduler.is_steered(false));
  EXPECT_TRUE(test.scheduler.update_due(test.analysed, false)) << "more is to follow";
  EXPECT_TRUE(test.analysed.state(Analysis::inspected).is_answered);
  for (int i = 0; i < 3; ++i) test.scheduler.update_due(test.analysed, false);
  EXPECT_FALSE(test.analysed.is_current(Analysis::solvers));
  test.now += 0.6;
  EXPECT_FALSE(test.scheduler.is_steered(false));
  test.scheduler.update_due(test.analysed, false);
  EXPECT_TRUE(test.analysed.is_current(Analysis::solvers));
}

TEST(AnalysisScheduler, WhileTrainingEachWaitsForItsTurn) {
  Scheduled test;
  test.scheduler.request(set_of(Analysis::trace));
  EXPECT_FALSE(test.scheduler.update_due(test.analysed, true));
  EXPECT_EQ(test.analysed.describe().current, set_of(Analysis::trace)) << "what is not requested is not made";
  ASSERT_TRUE(test.analysed.train_step());
  test.now += 0.1;
  test.scheduler.update_due(test.analysed, true);
  EXPECT_FALSE(test.analysed.is_current(Analysis::trace)) << "the throttle holds it back";
  test.now += 0.2;
  test.scheduler.update_due(test.analysed, true);
  EXPECT_TRUE(test.analysed.is_current(Analysis::trace));
  EXPECT_FALSE(test.scheduler.request(set_of(Analysis::trace)));
  EXPECT_TRUE(test.scheduler.request(Analysis::trace | Analysis::theory));
  test.scheduler.update_due(test.analysed, true);
  EXPECT_TRUE(test.analysed.is_current(Analysis::theory)) << "what the window opens comes at once";
}

/// The share of the time that a measurement takes between steps of a training, `since_opening` seconds after the window
/// asked for it: a slice, of that and the pause before the next one.
double share_of(Analysis analysis, double since_opening, double tick) {
  Scheduled test;
  test.scheduler.request(set_of(analysis));
  test.scheduler.begin(set_of(analysis));
  test.analysed.advance(analysis);  // it has begun
  test.now += since_opening;
  const double start = test.now;
  test.tick = tick;  // a piece takes some of them
  test.scheduler.advance_urgent(test.analysed);
  const double slice = test.now - start;
  EXPECT_GT(slice, 0.05);
  EXPECT_TRUE(test.analysed.state(analysis).is_urgent) << "one slice does not hold it";
  test.tick = 0;  // so the second one holds the rest
  for (int step = 0; step < 1000 && test.analysed.state(analysis).is_urgent; ++step) {
    test.now += 0.005;  // a step of the training
    test.scheduler.advance_urgent(test.analysed);
  }
  EXPECT_FALSE(test.analysed.state(analysis).is_urgent);
  EXPECT_EQ(test.warning, "");
  return slice / (test.now - start);
}

TEST(AnalysisScheduler, WhatTheWindowWaitsForGetsItsShareBetweenTwoObservations) {
  EXPECT_NEAR(share_of(Analysis::race, 5, 0.02), 0.8, 0.08);
}

TEST(AnalysisScheduler, WhatIsSeenInPartGivesWayToTheTrainingLater) {
  EXPECT_NEAR(share_of(Analysis::race, 20, 0.02), 0.125, 0.03);
  EXPECT_NEAR(share_of(Analysis::forces, 20, 0.1), 0.8, 0.08) << "nothing is seen before its end";
}

TEST(AnalysisScheduler, ACommandEndsASlice) {
  Scheduled test;
  double now = 1000;
  bool has_mail = false;
  AnalysisScheduler scheduler([&] { return now += 1e-3; }, [](const std::string&) {}, [&] { return has_mail; });
  scheduler.request(set_of(Analysis::race));
  const auto time_of_a_slice = [&] {
    const double before = now += 1;
    scheduler.advance_urgent(test.analysed);
    return now - before;
  };
  has_mail = true;
  const double interrupted = time_of_a_slice();
  has_mail = false;
  EXPECT_GT(time_of_a_slice(), interrupted + 0.005);
}

TEST(AnalysisScheduler, AMeasurementThatTheWindowComesBackToIsOfTheseWeights) {
  Scheduled test;
  const auto finish = [&] {
    while (!test.analysed.is_current(Analysis::race)) test.analysed.advance(Analysis::race);
    return test.analysed.describe().race;
  };
  test.analysed.advance(Analysis::race);
  ASSERT_TRUE(test.analysed.describe().race) << "that it has begun is seen at once";
  EXPECT_TRUE(test.analysed.describe().race->entries.empty());
  test.analysed.train_step();
  test.analysed.make_urgent(set_of(Analysis::race));
  EXPECT_EQ(finish()->step, test.analysed.step());
  EXPECT_FALSE(test.analysed.state(Analysis::race).is_urgent);
  test.analysed.make_urgent(set_of(Analysis::race));
  EXPECT_TRUE(test.analysed.is_current(Analysis::race)) << "nothing has changed since";
  test.analysed.train_step();
  test.analysed.make_urgent(set_of(Analysis::race));
  EXPECT_TRUE(test.analysed.state(Analysis::race).is_urgent);
}

TEST(AnalysisScheduler, SaysWhatIsComputedAndWhenItWillBeComplete) {
  Scheduled test;
  test.scheduler.request(set_of(Analysis::race));
  const auto work_of = [&](Analysis analysis, bool running) {
    Observation now = test.analysed.describe();
    test.scheduler.estimate(test.analysed, running, now);
    return now.work[place_of(analysis)];
  };
  EXPECT_EQ(work_of(Analysis::race, false).phase, AnalysisPhase::waiting);
  EXPECT_LT(work_of(Analysis::race, false).due_in, 0) << "nothing is known of it yet";
  EXPECT_EQ(work_of(Analysis::trace, false).phase, AnalysisPhase::idle) << "it is not requested";
  test.tick = 0.5;
  double before = 0, expected = 0;
  while (test.scheduler.has_pieces(test.analysed, false)) {
    test.scheduler.advance_pieces(test.analysed);
    const AnalysisWork work = work_of(Analysis::race, false);
    if (work.phase != AnalysisPhase::computing) break;
    EXPECT_GE(work.share_done, before);
    before = work.share_done;
    if (work.share_done > 0.5 && expected == 0) expected = work.due_in;
  }
  EXPECT_GT(before, 0.5);
  EXPECT_GT(expected, 0);
  EXPECT_EQ(work_of(Analysis::race, false).phase, AnalysisPhase::current);
  test.tick = 0;
  ASSERT_TRUE(test.analysed.train_step());
  const double at_rest = work_of(Analysis::race, false).due_in, training = work_of(Analysis::race, true).due_in;
  EXPECT_GT(at_rest, 0) << "as long as the last one took";
  EXPECT_GT(training, 10 * at_rest) << "at its share of the time";
}

TEST(AnalysisScheduler, AnEditedProbeIsAnsweredThoughItIsNotRequested) {
  Scheduled test;
  test.scheduler.request(set_of(Analysis::spectra));
  test.scheduler.update_due(test.analysed, true);
  EXPECT_FALSE(test.analysed.state(Analysis::inspected).is_answered);
  test.analysed.change_inspection({"head_off", R"({"head": 0})"_json});
  test.scheduler.note_edit();
  test.scheduler.update_due(test.analysed, true);
  EXPECT_TRUE(test.analysed.is_current(Analysis::inspected));
}

TEST(AnalysisScheduler, WhatTakesLongDoesNotDelayTheAnswerToAnEdit) {
  Scheduled test;
  test.tick = 0.01;  // an analysis takes some of them
  test.scheduler.request(Analysis::spectra | Analysis::inspected);
  test.scheduler.update_due(test.analysed, true);
  test.analysed.train_step();
  test.analysed.change_inspection({"head_off", R"({"head": 0})"_json});
  test.scheduler.note_edit();
  test.now += 1000;  // both are due
  test.scheduler.update_due(test.analysed, true, true);
  EXPECT_TRUE(test.analysed.is_current(Analysis::inspected));
  EXPECT_FALSE(test.analysed.is_current(Analysis::spectra));
  test.scheduler.update_due(test.analysed, true);
  EXPECT_TRUE(test.analysed.is_current(Analysis::spectra)) << "it follows";
}

}  // namespace
}  // namespace afterglow
