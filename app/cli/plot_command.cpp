// `afterglow plot KIND`: makes the figure that the window shows for a recipe, snapshot or preset, without a window.
#include <nlohmann/json.hpp>

#include "app/cli/start.h"
#include "core/engine/solver_problems.h"
#include "core/engine/watched_run.h"
#include "core/figure/figure_files.h"
#include "core/io/error.h"
#include "core/io/json_file.h"
#include "views/figures/plot_kinds.h"

namespace afterglow {

namespace {

SizePreset size_of_name(const std::string& name) {
  if (name == "column") return SizePreset::one_column;
  if (name == "page") return SizePreset::two_columns;
  if (name == "slide") return SizePreset::slide;
  throw Error(ExitCode::usage, "--size " + name + ": choose column (85 mm), page (178 mm) or slide (16:9)");
}

/// Index into all_arithmetics; -1 for none.
int arithmetic_of_name(const std::string& name) {
  if (name.empty()) return -1;
  for (std::size_t i = 0; i < all_arithmetics.size(); ++i) {
    if (name == name_of(all_arithmetics[i])) return static_cast<int>(i);
  }
  throw Error(ExitCode::usage, "--arithmetic " + name + ": choose bf16, tf32, fp32 or fp64");
}

}  // namespace

nlohmann::json plot(const PlotOptions& options, const CommonOptions& common, Output& output) {
  const PlotKind* kind = find_plot_kind(options.kind);
  if (!kind) {
    std::string names;
    for (const PlotKind& known : plot_kinds()) names += (names.empty() ? "" : ", ") + std::string(known.id);
    throw Error(ExitCode::usage, "there is no plot \"" + options.kind + "\"; there are " + names);
  }
  const Moment moment = start_moment(options.start, common, "tiny");
  const std::unique_ptr<Backend> backend = make_backend(common.device, common.threads);
  WatchedRun watched(moment, *backend);
  if (!moment.snapshot) {
    const std::int64_t last = options.until >= 0 ? options.until : moment.recipe.shown_step;
    const std::int64_t target = last >= 0 ? last : watched.run().trainer().config().steps;
    while (watched.run().step() < target) {
      if (!watched.train_step()) throw Error(ExitCode::non_finite, watched.run().failure());
      output.progress(moment.recipe.name, static_cast<double>(watched.run().step()) / static_cast<double>(target),
                      [&] { return std::to_string(watched.run().step()) + "/" + std::to_string(target); });
    }
    output.end_progress();
  }
  watched.update_spectra();
  if (options.layer >= 0) watched.choose_trace(options.layer);
  watched.update_trace();
  if (!options.problem.empty()) watched.choose_problem(parse_made_problem(parse_json(options.problem, "--problem")));
  watched.update_solvers();
  for (const char* measured : {"influence", "race", "routing", "position_code"}) {
    if (options.kind == measured) watched.measure_influence();
  }
  watched.update_probe();
  watched.choose_theory(options.layer, options.head);
  watched.update_theory();
  Observation observation = watched.describe();
  observation.checksum = watched.run().trainer().checksum();
  observation.checksum_step = observation.step;

  Selection selection;
  selection.layer = options.layer;
  selection.head = options.head;
  selection.token = options.token;
  selection.power = options.power;
  selection.all_heads = options.all_heads;
  selection.band = options.token < 0;
  selection.arithmetic = arithmetic_of_name(options.arithmetic);
  CurveStore curves;
  const std::vector<Figure> figures = prepared_figures(*kind, observation, selection, curves);
  if (options.number < 0 || static_cast<std::size_t>(options.number) >= figures.size()) {
    throw Error(ExitCode::failure, "plot " + options.kind + " has " + std::to_string(figures.size()) +
                                       " figures for this model; --figure counts from 0");
  }
  const Figure& figure = figures[static_cast<std::size_t>(options.number)];
  nlohmann::json written = nlohmann::json::array();
  WriteOptions write_options;
  write_options.overwrite = common.force;
  for (const std::string* path : {&options.svg, &options.pdf, &options.png, &options.csv}) {
    if (path->empty()) continue;
    for (const auto& file : write_figure(figure, *path, {}, size_of_name(options.size), write_options)) {
      written.push_back(file.string());
      output.line("written  " + file.string());
    }
  }
  if (written.empty()) throw Error(ExitCode::usage, "say where the plot goes: --svg, --pdf, --png or --csv FILE");
  return {{"plot", options.kind},
          {"figure", figure.id},
          {"step", observation.step},
          {"checksum", observation.checksum},
          {"files", written}};
}

}  // namespace afterglow
