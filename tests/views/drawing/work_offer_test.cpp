// What a panel says of an analysis that takes long.
#include "views/work_offer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace afterglow {
namespace {

Observation with_work(Analysis analysis, AnalysisWork work) {
  Observation observation;
  observation.work[place_of(analysis)] = work;
  return observation;
}

TEST(WorkOffer, OnlyWhatTakesLongIsSpokenOf) {
  const PlotKind& patch = *find_plot_kind("patch");
  EXPECT_EQ(long_work(patch, with_work(Analysis::patch, {"patch grid", 2, 1})), nullptr);
  EXPECT_EQ(long_work(patch, with_work(Analysis::ablation, {"ablation", 900, 0.1})), nullptr);
  const Observation observation = with_work(Analysis::patch, {"patch grid", 7300, 0.01});
  ASSERT_NE(long_work(patch, observation), nullptr);
  EXPECT_EQ(long_work_sentence(patch, observation), "All of it takes about 2 h.");
  EXPECT_EQ(long_work_sentence(patch, with_work(Analysis::patch, {"patch grid", 16, 0})),
            "With this model it takes about 16 s.");
}

TEST(WorkOffer, MoreIsARoundShareThatIsLargerThanBefore) {
  EXPECT_DOUBLE_EQ(larger_part({"patch grid", 600, 0.05}, 60), 0.15);
  EXPECT_EQ(larger_part({"patch grid", 100, 0.6}, 60), 1);
  double part = 1e-6;
  for (int i = 0; i < 5; ++i) {
    const double more = larger_part({"patch grid", 1e5, part}, 60);
    EXPECT_GE(more, part + 60 / 1e5 - 1e-12);
    part = more;
  }
}

}  // namespace
}  // namespace afterglow
