// Eigenvalue forces against finite differences of the eigenvalues themselves, and the rehearsed step that they come
// from against the step that training makes.
#include <gmock/gmock.h>

#include "core/analysis/koopman/mode_decomposition.h"
#include "core/engine/analyses/forces/forces_measurement.h"
#include "core/engine/session/analysed_run.h"
#include "tests/core/engine/small_recipe.h"
#include "tests/core/engine/train_to.h"

namespace afterglow {
namespace {

Example inspected_of(const TrainingRun& run) {
  const Trainer& trainer = run.trainer();
  return trainer.task().example(trainer.seed(), 0, Split::held_out);
}

void finish(ForcesMeasurement& forces) {
  while (forces.advance()) {
  }
}

std::vector<double> between(const std::vector<double>& a, const std::vector<double>& b, double share) {
  std::vector<double> mixed = a;
  for (std::size_t i = 0; i < a.size(); ++i) mixed[i] += share * (b[i] - a[i]);
  return mixed;
}

/// The eigenvalue of an operator that lies nearest.
std::complex<double> nearest(const HeadOperator& head, const std::complex<double>& to) {
  std::complex<double> best = INFINITY;
  for (const ModeSensitivity& mode : mode_sensitivities(head.A, head.rank)) {
    if (std::abs(mode.value - to) < std::abs(best - to)) best = mode.value;
  }
  return best;
}

TEST(RehearsedStep, IsTheStepThatFollowsAndLeavesNoTrace) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  TrainingRun plain(small_recipe(), *backend), watched(small_recipe(), *backend);
  for (int step = 0; step < 8; ++step) {
    const RehearsedStep rehearsed = watched.rehearse();
    EXPECT_TRUE(rehearsed.is_finite);
    EXPECT_EQ(watched.step(), step);
    EXPECT_EQ(watched.curves().loss.size(), static_cast<std::size_t>(step));
    ASSERT_TRUE(plain.train_step() && watched.train_step());
    EXPECT_EQ(watched.trainer().checksum(), plain.trainer().checksum());
    const ParameterStore& store = watched.trainer().parameters();
    EXPECT_EQ(to_doubles(rehearsed.after), store.download(store.values()));
    EXPECT_EQ(rehearsed.loss, plain.curves().loss.back());
  }
}

TEST(Forces, AreTheDerivativesOfTheEigenvalues) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  TrainingRun run(small_recipe(), *backend);
  train_to(run, 7);
  ForcesMeasurement forces(run.recipe().model, run.trainer());
  forces.begin(run, inspected_of(run));
  finish(forces);
  const ForcesView view = *forces.newest();
  EXPECT_EQ(view.step, 7);
  ASSERT_EQ(view.heads.size(), 2u);
  const RehearsedStep next = run.rehearse();
  constexpr double h = 1e-4;  // of the step
  const std::vector<double> here = to_doubles(next.weights), then = to_doubles(next.after);
  const auto ahead = forces.operators_at(between(here, then, h)), behind = forces.operators_at(between(here, then, -h)),
             after = forces.operators_at(then);
  int compared = 0;
  for (std::size_t i = 0; i < view.heads.size(); ++i) {
    for (const ModeForce& mode : view.heads[i].modes) {
      if (mode.condition > 1e3) continue;
      const std::complex<double> slope = (nearest(ahead[i], mode.value) - nearest(behind[i], mode.value)) / (2 * h);
      EXPECT_LT(std::abs(mode.by_optimiser - slope), 1e-5 * view.heads[i].change * mode.condition + 1e-9)
          << "head " << i << ", eigenvalue " << mode.value;
      EXPECT_GE(mode.condition, 1 - 1e-9);
      EXPECT_LE(std::abs(mode.by_optimiser), mode.condition * view.heads[i].change * (1 + 1e-9)) << "the ring's bound";
      if (mode.step_is_small) {
        EXPECT_EQ(mode.after, nearest(after[i], mode.value + mode.by_optimiser)) << "where the step truly takes it";
      }
      ++compared;
    }
  }
  EXPECT_GE(compared, 6) << "most of the twelve modes";
}

TEST(Forces, OfTheLossGoDownItsGradient) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  TrainingRun run(small_recipe(), *backend);
  train_to(run, 3);
  ForcesMeasurement forces(run.recipe().model, run.trainer());
  forces.begin(run, inspected_of(run));
  finish(forces);
  const RehearsedStep next = run.rehearse();
  const std::vector<double> gradient = to_doubles(next.gradient);
  double slope = 0;
  for (const double value : gradient) slope += value * value;
  EXPECT_NEAR(forces.newest()->gradient_norm, std::sqrt(slope), 1e-12);
  constexpr double h = 1e-3;
  std::vector<double> downhill = to_doubles(next.weights), uphill = downhill;
  for (std::size_t i = 0; i < downhill.size(); ++i) {
    const double by = h * forces.newest()->weight_change * gradient[i] / std::sqrt(slope);
    downhill[i] -= by;
    uphill[i] += by;
  }
  const HeadOperator ahead = forces.operators_at(downhill).front(), behind = forces.operators_at(uphill).front();
  const ModeForce& first = forces.newest()->heads.front().modes.front();
  const std::complex<double> moved = (nearest(ahead, first.value) - nearest(behind, first.value)) / (2 * h);
  EXPECT_LT(std::abs(first.by_loss - moved), 1e-4 * std::abs(moved));
}

TEST(Forces, OfALeftOutBatchAreNone) {
  Recipe recipe = small_recipe();
  recipe.commands.push_back({4, {"skip"}});
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun analysed({recipe, std::nullopt}, *backend);
  analysed.go_to(4);
  const auto found = analysed.observe(set_of(Analysis::forces)).forces;
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->is_left_out);
  for (const ModeForce& mode : found->heads.front().modes) {
    EXPECT_EQ(mode.by_optimiser, 0.0);
    EXPECT_EQ(mode.by_loss, 0.0);
    EXPECT_EQ(mode.after, mode.value);
  }
}

TEST(Forces, LeaveTheTrainingAsItIs) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun plain({small_recipe(), std::nullopt}, *backend), watched({small_recipe(), std::nullopt}, *backend);
  for (const std::int64_t step : {2, 5, 9}) {
    plain.go_to(step);
    watched.go_to(step);
    EXPECT_EQ(watched.observe(set_of(Analysis::forces)).forces->step, step);
    EXPECT_TRUE(watched.is_current(Analysis::forces));
  }
  EXPECT_EQ(plain.trainer().checksum(), watched.trainer().checksum());
}

// Where a piece takes seconds, the first analysis would otherwise come after minutes.
TEST(Forces, AreWaitedForUntilTheFirstAreThere) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  while (analysed.has_work(Analysis::forces)) {
    EXPECT_TRUE(analysed.state(Analysis::forces).is_urgent);
    analysed.advance(Analysis::forces);
  }
  EXPECT_FALSE(analysed.state(Analysis::forces).is_urgent);
  analysed.go_to(5);
  EXPECT_TRUE(analysed.has_work(Analysis::forces));
  EXPECT_FALSE(analysed.state(Analysis::forces).is_urgent) << "those of a later step have time";
}

TEST(Forces, AreMissingWithoutAKoopmanOperator) {
  nlohmann::json json = small_recipe_json();
  json["model"]["blocks"].erase(1);
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun analysed({parse_recipe(json, "without"), std::nullopt}, *backend);
  EXPECT_FALSE(analysed.has_work(Analysis::forces));
  EXPECT_FALSE(analysed.observe(set_of(Analysis::forces)).forces);
}

}  // namespace
}  // namespace afterglow
