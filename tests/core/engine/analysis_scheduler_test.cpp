// All analyses together keep to their share of the time, the first seconds show, and what somebody opens comes at once.
#include "core/engine/session/analysis_scheduler.h"

#include <gtest/gtest.h>

namespace afterglow {
namespace {

/// How often a look of `cost` seconds is made from `begin` to `end`, by somebody who asks a hundred times a second.
int looks(AnalysisThrottle& pace, double cost, double share, double begin, double end) {
  int count = 0;
  for (double now = begin; now < end; now += 0.01) {
    if (!pace.due(share, now)) continue;
    pace.looked(now, now + cost);
    now += cost;
    ++count;
  }
  return count;
}

TEST(AnalysisScheduler, ShareTheTimeAmongWhatIsAskedFor) {
  double total = 0;
  for (const AnalysisInfo& kind : analysis_infos) total += AnalysisScheduler::part_of(kind.analysis, all_analyses);
  EXPECT_DOUBLE_EQ(total, 1);
  EXPECT_DOUBLE_EQ(AnalysisScheduler::part_of(Analysis::trace, Analysis::trace | Analysis::probe), 0.5);
  EXPECT_DOUBLE_EQ(AnalysisScheduler::part_of(Analysis::influence, Analysis::influence | Analysis::theory), 0.75);
}

TEST(AnalysisScheduler, EveryAnalysisHasOneRow) {
  AnalysisSet seen = 0;
  for (const AnalysisInfo& kind : analysis_infos) {
    EXPECT_FALSE(has(seen, kind.analysis));
    seen = seen | kind.analysis;
  }
  EXPECT_EQ(seen, 63u);
}

TEST(AnalysisScheduler, InTheLongRunALookKeepsToItsShare) {
  AnalysisThrottle pace(0.25);
  pace.begin(0);
  looks(pace, 0.05, 0.01, 0, 1000);
  EXPECT_NEAR(looks(pace, 0.05, 0.01, 1000, 2000), 1000 * 0.01 / 0.05, 3);
}

TEST(AnalysisScheduler, ACheapLookKeepsToItsInterval) {
  AnalysisThrottle pace(0.25);
  pace.begin(0);
  EXPECT_NEAR(looks(pace, 0, 0.01, 0, 100), 400, 20);
}

TEST(AnalysisScheduler, TheFirstSecondsShowByLooksAtTwiceTheAgeEach) {
  AnalysisThrottle pace(0.25);
  pace.begin(100);
  EXPECT_TRUE(pace.due(0.01, 100));
  pace.looked(100, 101);  // its first look sets up what later ones use
  EXPECT_FALSE(pace.due(0.01, 100.2));
  EXPECT_TRUE(pace.due(0.01, 100.25));
  EXPECT_EQ(looks(pace, 0.05, 0.01, 100.25, 105), 5);  // at 0.25, 0.5, 1, 2 and 4 seconds
  EXPECT_LE(looks(pace, 0.05, 0.01, 105, 115), 3);
}

TEST(AnalysisScheduler, WhatSomebodyBeginsToLookAtIsDueAtOnceAndTheOthersAreNot) {
  AnalysisScheduler paces;
  for (const Analysis each : {Analysis::influence, Analysis::theory}) {
    paces.of(each).looked(500, 501);
    EXPECT_FALSE(paces.of(each).due(0.01, 510));
  }
  paces.begin(static_cast<AnalysisSet>(Analysis::influence), 510);
  EXPECT_TRUE(paces.of(Analysis::influence).due(0.01, 510));
  EXPECT_FALSE(paces.of(Analysis::theory).due(0.01, 510));
}

}  // namespace
}  // namespace afterglow
