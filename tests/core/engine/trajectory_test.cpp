// The path of training: recorded at fixed steps, the same after a rewind, decomposed by both strategies.
#include <gtest/gtest.h>

#include <cmath>

#include "core/engine/session/analysed_run.h"
#include "core/engine/training/saved/run_record.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

TEST(Trajectory, KeepsAtMostItsRowsEvenlySpaced) {
  Trajectory trajectory(1000);
  for (std::int64_t step = 1; step <= 1200; ++step) {
    const double row[] = {static_cast<double>(step), 1.0};
    trajectory.record(step, row);
  }
  const auto view = trajectory.view("counter", 1200);
  EXPECT_EQ(view->steps.size(), static_cast<std::size_t>(Trajectory::max_rows));
  EXPECT_EQ(view->steps.back(), 1200);
  for (std::size_t i = 1; i < view->steps.size(); ++i) EXPECT_EQ(view->steps[i] - view->steps[i - 1], 4);
  EXPECT_EQ(trajectory.view("its beginning", 802)->steps.back(), 800);
  trajectory.truncate(700);
  EXPECT_EQ(trajectory.view("what is left", 1200)->steps.back(), 700);
}

// A straight line has one mode, and its coordinate there is the line.
TEST(Trajectory, StraightLineIsOneMode) {
  Trajectory trajectory(50);
  for (int step = 1; step <= 50; ++step) {
    const double row[] = {3.0 * step, 4.0 * step, 7.0};
    trajectory.record(step, row);
  }
  const auto view = trajectory.view("line", 1200);
  ASSERT_EQ(view->width, 3);
  EXPECT_NEAR(view->explained[0], 1.0, 1e-12);
  EXPECT_NEAR(view->empirical.reconstruction_error[1], 0.0, 1e-6);
  ASSERT_EQ(view->path.size(), 3u);
  const double direction = view->path[0][49] > view->path[0][0] ? 1.0 : -1.0;
  for (int t = 0; t < 50; ++t) EXPECT_NEAR(view->path[0][t], direction * 5.0 * (t - 24.5), 1e-9);
}

TEST(Trajectory, StrategyALosesTheLeast) {
  Trajectory trajectory(100);
  for (int step = 1; step <= 100; ++step) {
    const double row[] = {std::sin(0.3 * step), std::cos(0.7 * step) * step, 0.01 * step * step, std::sin(1.9 * step)};
    trajectory.record(step, row);
  }
  const auto view = trajectory.view("curve", 1200);
  ASSERT_EQ(view->empirical.reconstruction_error.size(), view->empirical.eigenvalues.size() + 1);
  ASSERT_EQ(view->kernel.reconstruction_error.size(), view->empirical.reconstruction_error.size());
  for (std::size_t k = 0; k < view->kernel.reconstruction_error.size(); ++k)
    EXPECT_LE(view->empirical.reconstruction_error[k], view->kernel.reconstruction_error[k] + 1e-9);
}

TEST(Trajectory, FewRowsGiveNothingToDraw) {
  Trajectory trajectory(10);
  EXPECT_TRUE(trajectory.view("nothing", 10)->steps.empty());
  const double row[] = {1.0, 2.0};
  trajectory.record(1, row);
  EXPECT_TRUE(trajectory.view("one", 10)->path.empty());
}

TEST(Trajectory, OfARunIsTheSameAfterARewindAndForAnyNumberOfThreads) {
  const auto one = make_cpu_backend(1), two = make_cpu_backend(2);
  AnalysedRun first({small_recipe(), std::nullopt}, *one), second({small_recipe(), std::nullopt}, *two);
  first.go_to(30);
  second.go_to(30);
  second.go_to(11);
  second.advance(Analysis::trace, Budget::whole);
  EXPECT_LE(second.describe().trajectory->steps.back(), 11);
  second.go_to(30);
  first.advance(Analysis::trace, Budget::whole);
  second.advance(Analysis::trace, Budget::whole);
  const auto a = first.describe().trajectory, b = second.describe().trajectory;
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->steps.size(), 30u);
  EXPECT_EQ(a->steps, b->steps);
  EXPECT_EQ(a->path, b->path);
  EXPECT_GT(a->variance, 0.0);
}

}  // namespace
}  // namespace afterglow
