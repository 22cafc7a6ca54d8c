// All analyses together keep to their share of the time, and what somebody begins to wait for comes at once.
#include "core/engine/analysis_paces.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace afterglow {
namespace {

constexpr double hardly_anything = 1e-9;  // of the time: a millisecond of work comes again after eleven days

void work_for_a_millisecond() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

TEST(AnalysisPaces, ShareTheTimeAmongWhatIsAskedFor) {
  double total = 0;
  for (const AnalysisKind& kind : analysis_kinds) total += AnalysisPaces::part_of(kind.analysis, all_analyses);
  EXPECT_DOUBLE_EQ(total, 1);
  EXPECT_DOUBLE_EQ(AnalysisPaces::part_of(Analysis::trace, Analysis::trace | Analysis::probe), 0.5);
  EXPECT_DOUBLE_EQ(AnalysisPaces::part_of(Analysis::influence, Analysis::influence | Analysis::theory), 0.75);
}

TEST(AnalysisPaces, EveryAnalysisHasOneRow) {
  Analyses seen = 0;
  for (const AnalysisKind& kind : analysis_kinds) {
    EXPECT_FALSE(has(seen, kind.analysis));
    seen = seen | kind.analysis;
  }
  EXPECT_EQ(seen, all_analyses);
  EXPECT_EQ(all_analyses, 63u);
}

TEST(AnalysisPaces, WhatIsNewlyAskedForIsDueAtOnceAndWhatWasDearIsNot) {
  AnalysisPaces paces;
  EXPECT_TRUE(paces.of(Analysis::influence).due(hardly_anything));
  EXPECT_TRUE(paces.of(Analysis::theory).due(hardly_anything));
  for (const Analysis each : {Analysis::influence, Analysis::theory}) paces.of(each).timed(work_for_a_millisecond);
  EXPECT_FALSE(paces.of(Analysis::influence).due(hardly_anything));
  paces.hurry(static_cast<Analyses>(Analysis::influence));
  EXPECT_TRUE(paces.of(Analysis::influence).due(hardly_anything));
  EXPECT_FALSE(paces.of(Analysis::theory).due(hardly_anything));
}

TEST(AnalysisPaces, AreNeverCloserThanTheirLeastInterval) {
  Pace daily(24 * 3600);
  daily.timed(work_for_a_millisecond);
  daily.hurry();
  EXPECT_FALSE(daily.due(1));
}

}  // namespace
}  // namespace afterglow
