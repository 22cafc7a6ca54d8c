// The solver laboratory: systems of layers as they are solved there, gates, and systems of the user's making.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/engine/inspection/solver_problems.h"
#include "core/engine/session/analysed_run.h"
#include "core/engine/session/session.h"
#include "core/io/error.h"
#include "core/layers/layer_kind.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

constexpr std::size_t fp32 = 2, fp64 = 3, cholesky = 4, conjugate = 3;

TEST(SolverView, ShowsTheSystemsOfTheLayerAsItsSpectraDo) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  analysed.advance(Analysis::spectra, Budget::whole);
  EXPECT_FALSE(analysed.is_current(Analysis::solvers));
  analysed.advance(Analysis::solvers, Budget::whole);
  EXPECT_TRUE(analysed.is_current(Analysis::solvers));
  const Observation seen = analysed.describe();
  ASSERT_TRUE(seen.solvers);
  const SolverView& view = *seen.solvers;
  EXPECT_EQ(seen.model.layers[static_cast<std::size_t>(view.layer)].kind, "ska");
  EXPECT_EQ(view.strength, 0);
  ASSERT_EQ(view.problems.size(), 24u);  // 12 tokens of 2 heads
  EXPECT_EQ(view.problems.back().token, 23);
  for (const RacedProblem& problem : view.problems) {
    const HeadSpectrum& head = seen.spectra->heads[static_cast<std::size_t>(problem.head)];
    EXPECT_NEAR(problem.kappa(), head.kappa, 1e-5 * head.kappa);
    EXPECT_NEAR(problem.eigenvalues.front(), head.lambda_min, 1e-5 * head.lambda_min);
    EXPECT_LE(problem.mu, problem.eigenvalues.front() * (1 + 1e-6));
    EXPECT_GE(problem.L, problem.eigenvalues.back());
    EXPECT_LT(problem.races[fp64][cholesky].back(), 1e-12);
    EXPECT_LT(problem.races[fp64][conjugate].back(), 1e-9);
    EXPECT_GT(problem.races[fp32][cholesky].back(), 1e-10);
    EXPECT_EQ(problem.races[fp64][0].size(), static_cast<std::size_t>(view.iterations) + 1);
  }
  ASSERT_EQ(view.conditioning.size(), 2u);
  EXPECT_EQ(view.conditioning[1].tokens.size(), 24u);
  EXPECT_EQ(view.gradients.size(), 8u);
  for (const GradientLine& line : view.gradients) EXPECT_FALSE(line.checks.empty());
}

TEST(SolverView, FollowsChunksAndTokensOfOtherModes) {
  for (const char* mode : {"chunk", "recurrent", "masked"}) {
    nlohmann::json recipe = small_recipe_json();
    recipe["model"]["blocks"][1]["mixer"]["mode"] = mode;
    if (mode == std::string("chunk")) recipe["model"]["blocks"][1]["mixer"]["chunk"] = 8;
    const auto backend = make_cpu_backend(1);
    AnalysedRun analysed({parse_recipe(recipe, "test"), std::nullopt}, *backend);
    analysed.advance(Analysis::solvers, Budget::whole);
    const SolverView view = *analysed.describe().solvers;
    ASSERT_FALSE(view.problems.empty()) << mode;
    for (const RacedProblem& problem : view.problems) {
      EXPECT_FALSE(problem.eigenvalues.empty()) << mode;
      if (mode == std::string("chunk")) {
        EXPECT_GE(problem.token, 8);  // the first chunk sees nothing
      }
    }
    const std::vector<double>& largest = view.conditioning[0].largest;
    if (mode == std::string("recurrent")) {
      EXPECT_NE(largest.front(), largest.back());
    }
  }
}

TEST(SolverView, ReadsTheGatesOfMamba2) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  analysed.advance(Analysis::solvers, Budget::whole);
  const SolverView view = *analysed.describe().solvers;
  EXPECT_EQ(analysed.describe().model.layers[static_cast<std::size_t>(view.gate_layer)].kind, "mamba2");
  ASSERT_EQ(view.gates.size(), 4u);  // 2 * 16 wide, heads of 8
  for (const HeadGate& gate : view.gates) {
    ASSERT_EQ(gate.log_decay.size(), 24u);
    for (const double g : gate.log_decay) EXPECT_LT(g, 0);
  }
}

TEST(SolverView, ReadsTheGatesOfEveryLayerThatFades) {
  const auto backend = make_cpu_backend(1);
  for (const LayerKind& kind : layer_kinds()) {
    if (!shows(kind.name, LayerTrait::gate)) continue;
    nlohmann::json recipe = small_recipe_json(), mixer = small_layer_config(kind, 16);
    mixer["kind"] = kind.name;
    recipe["model"]["blocks"] = nlohmann::json::array({{{"mixer", mixer}}});
    AnalysedRun analysed({parse_recipe(recipe, "test"), std::nullopt}, *backend);
    analysed.advance(Analysis::solvers, Budget::whole);
    const SolverView view = *analysed.describe().solvers;
    ASSERT_EQ(view.gate_layer, 1) << kind.name;
    ASSERT_FALSE(view.gates.empty()) << kind.name;
    ASSERT_EQ(view.half_lives.size(), 1u) << kind.name;
    const HeadGate& last = view.gates.back();
    const double mean = std::accumulate(last.log_decay.begin(), last.log_decay.end(), 0.0) / 24;
    EXPECT_DOUBLE_EQ(view.half_lives[0].of_heads.at(static_cast<std::size_t>(last.head)), std::log(0.5) / mean);
    for (const HeadGate& gate : view.gates) EXPECT_EQ(gate.log_decay.size(), 24u) << kind.name;
  }
  for (const char* kind : {"mamba3", "gated_deltanet", "gla"}) EXPECT_TRUE(shows(kind, LayerTrait::gate)) << kind;
}

TEST(SolverView, LooksAtNothingInAModelWithoutSystems) {
  nlohmann::json recipe = small_recipe_json();
  recipe["model"]["blocks"] = nlohmann::json::array(
      {{{"mixer", {{"kind", "attention"}, {"n_heads", 2}}}, {"mlp", {{"kind", "swiglu"}, {"d_ff", 24}}}}});
  const auto backend = make_cpu_backend(1);
  AnalysedRun analysed({parse_recipe(recipe, "test"), std::nullopt}, *backend);
  analysed.advance(Analysis::solvers, Budget::whole);
  const SolverView view = *analysed.describe().solvers;
  EXPECT_EQ(view.layer, -1);
  EXPECT_EQ(view.gate_layer, -1);
  EXPECT_TRUE(view.problems.empty());
  EXPECT_TRUE(view.gates.empty());
}

TEST(MadeProblem, HasTheSpectrumThatWasAskedFor) {
  const auto made = parse_made_problem(nlohmann::json::parse(R"({"eigenvalues": [0.5, 3, 0.01, 3]})"));
  ASSERT_TRUE(made);
  const RidgeProblem problem = system_of(*made);
  const std::vector<double> values = ridge_eigenvalues(problem), expected{0.01, 0.5, 3, 3};
  ASSERT_EQ(values.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(values[i], expected[i], 1e-12);
  EXPECT_EQ(problem.mu, 0.01);
  EXPECT_EQ(problem.L, 3);
  for (const char* shape : {"geometric", "clustered", "outlier"}) {
    const auto shaped = parse_made_problem({{"shape", shape}, {"count", 17}, {"kappa", 300}});
    ASSERT_EQ(shaped->eigenvalues.size(), 17u);
    const auto [low, high] = std::minmax_element(shaped->eigenvalues.begin(), shaped->eigenvalues.end());
    EXPECT_NEAR(*high / *low, 300, 1e-9) << shape;
  }
  const auto told = parse_made_problem({{"shape", "geometric"}, {"mu", 0.5}, {"L", 2.0}});
  EXPECT_EQ(system_of(*told).mu, 0.5);
  EXPECT_EQ(system_of(*told).L, 2);
  EXPECT_FALSE(parse_made_problem(nlohmann::json::object()));
}

TEST(MadeProblem, RefusesWhatIsNoSpectrum) {
  for (const char* text : {R"({"eigenvalues": []})", R"({"eigenvalues": [1, 0]})", R"({"eigenvalues": [1, -2]})",
                           R"({"eigenvalues": "all"})", R"({"shape": "square"})", R"({"shapes": "geometric"})",
                           R"({"count": 4})", R"([1, 2])", R"({"shape": "outlier", "kappa": 0.5})"}) {
    EXPECT_THROW(parse_made_problem(nlohmann::json::parse(text)), Error) << text;
  }
  nlohmann::json many{{"eigenvalues", std::vector<double>(129, 1.0)}};
  EXPECT_THROW(parse_made_problem(many), Error);
}

TEST(MadeProblem, IsRacedBesideTheLayersOwnAndForgotten) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  analysed.advance(Analysis::solvers, Budget::whole);
  const auto layers_own = analysed.describe().solvers->problems.front().eigenvalues;
  analysed.choose("solver_problem", {{"eigenvalues", {0.1, 1}}});
  SolverView view = *analysed.describe().solvers;
  ASSERT_TRUE(view.made);
  EXPECT_NEAR(view.made->kappa(), 10, 1e-9);
  EXPECT_EQ(view.problems.front().eigenvalues, layers_own);
  EXPECT_LT(view.made->races[fp64][conjugate][2], 1e-14);  // two eigenvalues, two steps
  EXPECT_EQ(view.made_gradients.size(), 8u);
  analysed.train_step();
  analysed.advance(Analysis::solvers, Budget::whole);
  EXPECT_TRUE(analysed.describe().solvers->made);  // it stays through training
  analysed.choose("solver_problem", nlohmann::json::object());
  view = *analysed.describe().solvers;
  EXPECT_FALSE(view.made);
  EXPECT_TRUE(view.made_gradients.empty());
}

}  // namespace
}  // namespace afterglow
