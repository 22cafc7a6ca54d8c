// `train` writes the figures of the model's first page, or of every plot that has one for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "core/engine/session/analysed_run.h"
#include "tests/app/run_program.h"
#include "tests/core/engine/small_recipe.h"
#include "views/plots/file_stem.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {
namespace {

constexpr std::int64_t trained_steps = 12;

TEST(TrainFigures, EveryPlotThatHasAFigureIsWritten) {
  const ScratchFolder folder("train_figures");
  std::ofstream(folder / "quick.json") << quickly_measured_recipe_json().dump();
  const ProgramResult result =
      run_program("train --recipe quick.json --device cpu --until 12 --figures all --out out", folder.path());
  ASSERT_EQ(result.code, 0) << result.err;

  const auto backend = make_cpu_backend(1);
  AnalysedRun analysed({parse_recipe(quickly_measured_recipe_json(), "quick"), std::nullopt}, *backend);
  analysed.go_to(trained_steps);
  const Observation observation = analysed.observe(all_analyses);
  CurveStore curves;
  std::set<std::string> with_figures;
  for (const PlotKind& kind : plot_kinds()) {
    for (const Figure& figure : prepared_figures(kind, observation, Selection(), curves)) {
      with_figures.insert(std::string(kind.id));
      EXPECT_TRUE(std::filesystem::exists(folder.path() / "out/figures_small_seed3_step12" /
                                          (file_stem(figure.id, observation.model) + ".svg")))
          << figure.id << " of " << kind.id;
    }
  }
  for (const char* kind : {"training", "spectrum", "probe", "gradient_depth", "solver_race", "gradient_check", "gate",
                           "influence", "race", "routing", "deep_profiles"})
    EXPECT_TRUE(with_figures.contains(kind)) << kind;
}

TEST(TrainFigures, UnaskedThoseOfTheFirstPageAreWritten) {
  const ScratchFolder folder("page_figures");
  std::ofstream(folder / "quick.json") << quickly_measured_recipe_json().dump();
  const std::string line = "train --recipe quick.json --device cpu --until 12 --json ";
  const auto figures = [&](const std::string& more) {
    const ProgramResult result = run_program(line + more, folder.path());
    EXPECT_EQ(result.code, 0) << result.err;
    std::set<std::string> names;
    const auto object = nlohmann::json::parse(result.out);
    for (const auto& file : object["figures"]) names.insert(std::filesystem::path(file.get<std::string>()).stem());
    return names;
  };
  const std::set<std::string> page = figures("--out page");
  EXPECT_TRUE(page.contains("spectrum_1-ska_head0") && page.contains("training_loss"));
  for (const std::string& name : page)
    EXPECT_FALSE(name.starts_with("solver_race") || name.starts_with("influence")) << name << " is of another page";
  EXPECT_LT(page.size(), 30u);
  EXPECT_TRUE(figures("--out none --no-figures").empty());
}

}  // namespace
}  // namespace afterglow
