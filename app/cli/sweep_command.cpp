// `afterglow sweep`: trains one recipe at every point of a grid of its fields, and writes all results as CSV and
// figures. It continues where it was stopped.
#include <nlohmann/json.hpp>

#include "app/cli/start.h"
#include "app/cli/study_run.h"
#include "core/engine/sweeps/sweep.h"
#include "core/engine/training/objective.h"
#include "core/io/json_file.h"
#include "core/recipe/recipe.h"
#include "views/figures/studies/sweep_figures.h"

namespace afterglow {
namespace {

constexpr std::size_t quality_metric = 1;  // the accuracy, or for a forecaster the explained variance

std::vector<SweepAxis> axes_of(const SweepOptions& options, const Recipe& recipe) {
  std::vector<SweepAxis> axes;
  for (const std::string& text : options.axes) axes.push_back(parse_axis(text));
  if (options.seeds > 0) axes.push_back(seed_axis(recipe, options.seeds));
  if (axes.empty())
    throw UsageError("a sweep needs axes; give --axis, such as --axis learning_rate=log:1e-4:1e-2:8, or --seeds 3");
  return axes;
}

nlohmann::json rows_of(const SweepView& sweep) {
  nlohmann::json rows = nlohmann::json::array();
  for (const RunResult& result : sweep.results) {
    nlohmann::json row{{"checksum", result.checksum}};
    const std::vector<std::size_t> place = place_of(sweep.axes, result.row);
    for (std::size_t i = 0; i < place.size(); ++i) row[sweep.axes[i].field] = sweep.axes[i].values[place[i]];
    for (std::size_t m = 0; m < sweep.metrics.size(); ++m) row[sweep.metrics[m].name] = json_number(result.values[m]);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

nlohmann::json sweep(const SweepOptions& options, const CommonOptions& common, Output& output) {
  const SavedRun start = starting_run(options.start, common, "tiny");
  if (start.snapshot) throw UsageError("a sweep begins at step 0; give --preset or --recipe");
  const Recipe& recipe = start.recipe;
  ParameterStore declared;
  const Inquiry inquiry = sweep_inquiry(make_objective(recipe, declared)->measures(), options.enough);
  SweepView view{recipe.name, axes_of(options, recipe), inquiry.metrics, {}, {}};
  std::vector<std::size_t> drawn;
  for (const std::string& name : options.figures)
    drawn.push_back(name == "accuracy" ? quality_metric : find_metric(view.metrics, name));
  const std::vector<PlannedRun> runs = runs_of(recipe, view.axes, inquiry);
  StudyRun study(recipe.name, inquiry, runs, options, common, output);
  if (study.list()) return nlohmann::json::object();
  const std::filesystem::path folder = options.out.empty() ? std::filesystem::path("sweep") : options.out;
  output.message("a sweep of ", recipe.name, ": ", recipe.title);
  study.train(folder);
  view.recipe = carried_text(recipe);
  const nlohmann::json files = study.write_files([&](const std::vector<RunResult>& results) {
    view.results = results;
    std::vector<std::filesystem::path> written{folder / "sweep.csv"};
    write_sweep_csv(written.front(), view, runs);
    write_study_figures(sweep_figures(view, drawn), folder, written);
    return written;
  });
  return {{"sweep", recipe.name}, {"device", study.device()}, {"runs", rows_of(view)}, {"files", files}};
}

}  // namespace afterglow
