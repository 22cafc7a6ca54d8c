// Surgery: weights fitted to dragged eigenvalues, as a step of a run that replays, rewinds, resumes and undoes.
#include "core/engine/training/surgery.h"

#include <gmock/gmock.h>

#include "core/engine/analyses/forces/forces_view.h"
#include "core/engine/session/analysed_run.h"
#include "core/io/error.h"
#include "tests/core/engine/small_recipe.h"
#include "tests/core/engine/train_to.h"

namespace afterglow {
namespace {

const HeadSpectrum& head_of(const Observation& seen, int head) {
  return seen.spectra->heads.at(static_cast<std::size_t>(head));
}

/// The largest distance of the wanted eigenvalues from the nearest there are.
double distance(const HeadSpectrum& head, const std::vector<std::complex<double>>& wanted) {
  double furthest = 0;
  for (const std::complex<double>& one : wanted) {
    double nearest = INFINITY;
    for (const std::complex<double>& there : head.eigenvalues) nearest = std::min(nearest, std::abs(there - one));
    furthest = std::max(furthest, nearest);
  }
  return furthest;
}

Command drag(int head, int mode, const std::complex<double>& to) {
  return {"drag_mode", nlohmann::json{{"head", head}, {"mode", mode}, {"re", to.real()}, {"im", to.imag()}}};
}

/// A run at step 6 whose inspected sequence has moved the first mode of head 1; returns where all of its modes are to
/// go.
std::vector<std::complex<double>> move_first(AnalysedRun& analysed) {
  analysed.go_to(6);
  std::vector<std::complex<double>> wanted = head_of(analysed.observe(set_of(Analysis::spectra)), 1).eigenvalues;
  analysed.change_inspection(drag(1, 0, 0.8 * wanted[0]));
  const bool is_pair = wanted[0].imag() != 0;
  wanted[0] *= 0.8;
  if (is_pair) wanted[1] *= 0.8;
  return wanted;
}

TEST(Surgery, GivesTheOperatorTheMovedEigenvaluesAndNothingElse) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  const auto wanted = move_first(analysed);
  const HeadSpectrum other = head_of(analysed.observe(set_of(Analysis::spectra)), 0);
  const ParameterStore& store = analysed.trainer().parameters();
  const std::vector<double> before = store.download(store.values());
  analysed.operate(nlohmann::json::object());
  EXPECT_EQ(analysed.step(), 7) << "a step of its own";
  EXPECT_FALSE(analysed.inspection_has_interventions()) << "they are the weights' own now";
  const Observation after = analysed.observe(set_of(Analysis::spectra));
  EXPECT_LT(distance(head_of(after, 1), wanted), 1e-4) << "moved ones and those that were to stay";
  EXPECT_EQ(head_of(after, 0).eigenvalues, other.eigenvalues) << "the other head is untouched";
  const std::vector<double> now = store.download(store.values());
  for (const Parameter& parameter : store.all()) {
    const auto begin = static_cast<std::ptrdiff_t>(parameter.offset), size = parameter.shape.elements();
    const bool is_same = std::equal(now.begin() + begin, now.begin() + begin + size, before.begin() + begin);
    EXPECT_EQ(is_same, !parameter.name.ends_with("ska.k_proj.weight")) << parameter.name;
  }
}

TEST(Surgery, IsTheSameByReplayRewindAndSnapshot) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  move_first(analysed);
  analysed.operate(nlohmann::json::object());
  const std::string just_after = analysed.trainer().checksum();
  analysed.go_to(12);
  const std::string expected = analysed.trainer().checksum();
  const Recipe recipe = analysed.recipe();
  EXPECT_EQ(common_step(recipe, small_recipe()), 6);
  TrainingRun replayed(recipe, *backend);
  train_to(replayed, 7);
  EXPECT_EQ(replayed.trainer().checksum(), just_after);
  train_to(replayed, 12);
  EXPECT_EQ(replayed.trainer().checksum(), expected);
  replayed.go_to(3);
  replayed.go_to(12);
  EXPECT_EQ(replayed.trainer().checksum(), expected);
  for (const std::int64_t from : {6, 7}) {
    replayed.go_to(from);
    TrainingRun resumed(replayed.snapshot(), *backend);
    train_to(resumed, 12);
    EXPECT_EQ(resumed.trainer().checksum(), expected) << "from step " << from;
  }
  EXPECT_THAT(replayed.curves().marks, testing::SizeIs(1));
}

TEST(Surgery, IsUndoneAndDoneAgain) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  move_first(analysed);
  const std::string before = analysed.trainer().checksum();
  analysed.operate(nlohmann::json::object());
  analysed.go_to(9);
  const std::string after = analysed.trainer().checksum();
  ASSERT_TRUE(analysed.undo());
  EXPECT_EQ(analysed.step(), 6);
  EXPECT_EQ(analysed.trainer().checksum(), before);
  EXPECT_EQ(analysed.latest_step(), 6);
  EXPECT_TRUE(analysed.inspection_has_interventions()) << "the drag comes back with the surgery's undo";
  ASSERT_TRUE(analysed.redo());
  EXPECT_FALSE(analysed.inspection_has_interventions());
  analysed.go_to(9);
  EXPECT_EQ(analysed.trainer().checksum(), after);
  ASSERT_TRUE(analysed.undo());
  TrainingRun plain(small_recipe(), *backend);
  train_to(plain, 10);
  analysed.go_to(10);
  EXPECT_EQ(analysed.trainer().checksum(), plain.trainer().checksum()) << "nothing of it is left";
}

TEST(Surgery, IsRememberedByTheForces) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  const auto wanted = move_first(analysed);
  analysed.operate(nlohmann::json::object());
  const Observation after = analysed.observe(set_of(Analysis::forces));
  const std::vector<std::complex<double>>& operated = after.forces->heads[1].operated;
  ASSERT_FALSE(operated.empty());
  EXPECT_LT(std::abs(operated[0] - wanted[0]), 1e-6);
  EXPECT_TRUE(after.forces->heads[0].operated.empty());
  EXPECT_LT(std::abs(after.forces->heads[1].modes[0].value - wanted[0]), 1.0);
}

TEST(Surgery, ThatCannotBeDoneChangesNothing) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  analysed.go_to(6);
  const std::string before = analysed.trainer().checksum();
  EXPECT_THROW(analysed.operate(nlohmann::json::object()), Error) << "nothing is moved";
  EXPECT_FALSE(analysed.inspection_moves_eigenvalues());
  analysed.change_inspection(drag(0, 0, {2.5, 0}));
  EXPECT_TRUE(analysed.inspection_moves_eigenvalues());
  EXPECT_THROW(analysed.operate(nlohmann::json::object()), Error) << "outside of the circle";
  EXPECT_EQ(analysed.step(), 6);
  EXPECT_EQ(analysed.trainer().checksum(), before);
  EXPECT_TRUE(analysed.inspection_moves_eigenvalues());
  EXPECT_THAT(analysed.recipe().commands, testing::IsEmpty());
  Recipe broken = small_recipe();
  broken.commands.push_back(
      {2, {"surgery", R"({"overrides": [{"name": "drag_mode", "value": {"head": 9, "mode": 0, "re": 1}}]})"_json}});
  EXPECT_THROW(TrainingRun(broken, *backend), Error) << "reported when the run is opened";
}

TEST(Surgery, WritesTheEigenvaluesOfAKoopmanMlpWhereTheyAreLearned) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  analysed.go_to(6);
  const MlpSpectrum before = analysed.observe(set_of(Analysis::spectra)).spectra->mlps.at(0);
  const ParameterStore& store = analysed.trainer().parameters();
  const std::vector<double> weights = store.download(store.values());
  analysed.change_inspection({"drag_mode", R"({"layer": "1 koopman_mlp", "mode": 3, "re": 1.2, "im": 1.6})"_json});
  analysed.operate(nlohmann::json::object());
  EXPECT_EQ(analysed.step(), 7);
  EXPECT_FALSE(analysed.inspection_has_interventions());
  const MlpSpectrum after = analysed.observe(set_of(Analysis::spectra)).spectra->mlps.at(0);
  for (std::size_t i = 0; i < before.eigenvalues.size(); ++i) {
    const double side = before.eigenvalues[i].imag() < 0 ? -1 : 1;
    const std::complex<double> expected = i == 3 ? std::complex<double>(0.6, side * 0.8) : before.eigenvalues[i];
    EXPECT_LT(std::abs(after.eigenvalues[i] - expected), 1e-6) << i;
  }
  const std::vector<double> now = store.download(store.values());
  for (const Parameter& parameter : store.all()) {
    const auto begin = static_cast<std::ptrdiff_t>(parameter.offset), size = parameter.shape.elements();
    const bool is_same = std::equal(now.begin() + begin, now.begin() + begin + size, weights.begin() + begin);
    const bool is_learned = parameter.name.ends_with("mlp.gamma") || parameter.name.ends_with("mlp.omega");
    EXPECT_EQ(is_same, !is_learned) << parameter.name;
  }
  const std::string checksum = analysed.trainer().checksum();
  TrainingRun replayed(analysed.recipe(), *backend);
  train_to(replayed, 7);
  EXPECT_EQ(replayed.trainer().checksum(), checksum);
  ASSERT_TRUE(analysed.undo());
  EXPECT_EQ(analysed.step(), 6);
}

}  // namespace
}  // namespace afterglow
