// What a panel says of an analysis that takes long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/engine/observation/run_numbers.h"
#include "views/panels/panel.h"

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

TEST(PendingWork, ListsWhatIsComputedFirstAndLeavesOutWhatIsDueAtOnce) {
  Observation now;
  EXPECT_EQ(pending_work(now).shown, "");
  const auto set = [&](Analysis analysis, std::string_view name, AnalysisPhase phase, double share, double due) {
    now.work[place_of(analysis)] = {name, 0, 1, phase, share, due};
  };
  set(Analysis::spectra, "spectra", AnalysisPhase::waiting, 0, 0.4);
  set(Analysis::trace, "trace", AnalysisPhase::current, 1, 0);
  EXPECT_EQ(pending_work(now).shown, "");
  set(Analysis::influence, "influence", AnalysisPhase::waiting, 0, 30);
  set(Analysis::race, "race", AnalysisPhase::computing, 0.457, 12);
  EXPECT_EQ(pending_work(now).shown, "race 45 %, about 12 s · 1 more");
  EXPECT_EQ(pending_work(now).all, "race 45 %, about 12 s; influence waits, about 30 s");
  set(Analysis::race, "race", AnalysisPhase::computing, 0, -1);
  EXPECT_EQ(pending_work(now).shown, "race 0 % · 1 more") << "nothing is known of its time";
}

}  // namespace
}  // namespace afterglow
