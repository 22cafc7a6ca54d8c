// `afterglow plot KIND`: writes the figure that the window shows for a recipe, snapshot or preset, without a window.
#include <nlohmann/json.hpp>

#include "app/cli/interruption.h"
#include "app/cli/layer_choice.h"
#include "app/cli/paper_plots.h"
#include "app/cli/start.h"
#include "core/engine/analyses/costs/layer_costs.h"
#include "core/engine/analyses/influence/deep_experiment.h"
#include "core/engine/analyses/influence/influence_measurement.h"
#include "core/engine/session/analysed_run.h"
#include "core/figure/axis.h"
#include "core/figure/files/figure_files.h"
#include "core/figure/summary.h"
#include "core/io/json_file.h"
#include "core/io/named.h"
#include "core/io/number_text.h"
#include "core/io/wording.h"
#include "views/plots/plot_kinds.h"
#include "views/plots/plot_numbers.h"

namespace afterglow {
namespace {

SizePreset size_of_name(const std::string& name) {
  if (name == "column") return SizePreset::one_column;
  if (name == "page") return SizePreset::two_columns;
  if (name == "slide") return SizePreset::slide;
  throw UsageError("--size ", name, ": choose column (85 mm), page (178 mm) or slide (16:9)");
}

/// Index into all_arithmetics; -1 if the option is empty.
int arithmetic_of_name(const std::string& name) {
  if (name.empty()) return -1;
  for (std::size_t i = 0; i < all_arithmetics.size(); ++i) {
    if (name == name_of(all_arithmetics[i])) return static_cast<int>(i);
  }
  throw UsageError("--arithmetic ", name, ": choose bf16, tf32, fp32 or fp64");
}

/// Writes a figure to every given path, with `suffix` after the stem; returns the paths.
nlohmann::json write_to_paths(const Figure& figure, const PlotOptions& options, const CommonOptions& common,
                              const std::string& suffix, Output& output) {
  nlohmann::json written = nlohmann::json::array();
  WriteOptions write_options{.overwrite = common.force, .shows_title = options.titles};
  for (const std::string* path : {&options.svg, &options.pdf, &options.png, &options.csv}) {
    if (path->empty()) continue;
    std::filesystem::path place = *path;
    place.replace_filename(place.stem().string() + suffix + place.extension().string());
    for (const auto& file : write_figure(figure, place, {}, size_of_name(options.size), write_options))
      written.push_back(output.wrote(file));
  }
  return written;
}

/// Checks the options before the plot's long work.
void require_path(const PlotOptions& options) {
  if (options.svg.empty() && options.pdf.empty() && options.png.empty() && options.csv.empty())
    throw UsageError("give a file for the plot: --svg, --pdf, --png or --csv FILE");
  for (const std::string* path : {&options.svg, &options.pdf, &options.png, &options.csv}) {
    if (!path->empty()) require_writable(*path);
  }
}

/// A tenth of the steps on an eighth of the length, unless the user wants the full size.
Recipe recipe_for(std::string_view preset, const PaperSettings& settings) {
  Recipe recipe = parse_recipe(find_preset(std::string(preset)).text, std::string(preset));
  recipe.seed = settings.seed;
  if (!settings.is_full_size) {
    recipe.training.steps /= 10;
    recipe.training.warmup /= 10;
    recipe.task["length"] = recipe.task["length"].get<std::int64_t>() / 8;
  }
  return recipe;
}

/// Trains a plot's presets, one after the other, all with the plot's seed.
void train_presets(const PaperPlot& plot, PaperSettings& settings, const CommonOptions& common, Output& output) {
  if (plot.presets.empty()) return;
  const std::unique_ptr<Backend> backend = chosen_backend(common);
  for (const std::string_view preset : plot.presets) {
    Recipe recipe = recipe_for(preset, settings);
    if (!common.precision.empty()) recipe.precision = parse_precision(common.precision);
    TrainingRun run(recipe, *backend, 0);
    while (!run.finished() && run.train_step()) {
      Interruption::check("at step " + std::to_string(run.step()) + " of " + recipe.name);
      const double share = static_cast<double>(run.step()) / static_cast<double>(recipe.training.steps);
      output.progress(recipe.name, share, [&] { return std::to_string(run.step()); });
    }
    output.end_progress();
    if (!run.failure().empty())
      output.message(recipe.name, ": ", run.failure());  // a failed run counts as a result, too
    settings.runs.push_back(run.curves());
  }
}

/// One figure of a paper, or all its parts, each in a file with its letter.
nlohmann::json paper_plot(const PaperPlot& plot, const PlotOptions& options, const CommonOptions& common,
                          Output& output) {
  require_path(options);
  PaperSettings settings = parse_paper_settings(options.start.assignments);
  if (options.number >= static_cast<int>(plot.figures))
    throw UsageError("plot ", options.kind, " has no figure ", options.number, "; there are 0 to ", plot.figures - 1);
  train_presets(plot, settings, common, output);
  nlohmann::json written = nlohmann::json::array();
  for (std::size_t number = 0; number < plot.figures; ++number) {
    if (options.number >= 0 && static_cast<std::size_t>(options.number) != number) continue;
    const Figure figure = plot.make(number, settings, [&](double share) {
      Interruption::check("during " + plot.id);
      output.progress(plot.id, (static_cast<double>(number) + share) / static_cast<double>(plot.figures),
                      [&] { return std::to_string(number + 1) + "/" + std::to_string(plot.figures); });
    });
    output.end_progress();
    const bool has_parts = plot.figures > 1 && options.number < 0;
    const std::string suffix = has_parts ? std::string("_") + static_cast<char>('a' + number) : "";
    for (const auto& file : write_to_paths(figure, options, common, suffix, output)) written.push_back(file);
  }
  if (!plot.finding.empty()) output.note(plot.finding);
  return {{"plot", options.kind}, {"files", written}};
}

/// Runs the plot's experiment, which needs no model and no training.
template <class Experiment>
const Experiment& worked_off(Experiment&& experiment) {
  while (experiment.advance()) Interruption::check("while the plot was made");
  return experiment;
}

Observation observation_without_model(const PlotKind& kind, const PlotOptions& options) {
  const nlohmann::json asked = options.influence.empty()
                                   ? nlohmann::json::object()
                                   : of_words([&] { return parse_json(options.influence, "--influence"); });
  Observation observation;
  if (has(kind.analyses, Analysis::retrieval)) {
    observation.retrieval =
        worked_off(RetrievalExperiment(of_words([&] { return parse_influence(asked, {}); }).retrieval)).view();
  } else if (has(kind.analyses, Analysis::costs)) {
    observation.costs = worked_off(CostMeasurement()).view();
  } else {
    const auto view = std::make_shared<InfluenceView>();
    view->deep = worked_off(DeepExperiment()).profiles();
    observation.influence = view;
  }
  return observation;
}

/// The names of curves and labelled dots; some of them contain fitted values.
nlohmann::json say_curves(const Figure& figure, const Output& output) {
  nlohmann::json names = nlohmann::json::array();
  const auto say = [&](const std::string& name) {
    names.push_back(name);
    output.line("  ", name);
  };
  for (const Series& series : figure.series) {
    const auto* line = std::get_if<Line>(&series);
    if (line && !line->is_quiet && !line->name.empty()) say(line->name);
    const auto* scatter = std::get_if<Scatter>(&series);
    if (!scatter) continue;
    for (const ScatterPoint& point : scatter->points) {
      if (!point.label.empty() && !point.id.starts_with(point.label)) say(point.id + ": " + point.label);
    }
  }
  return names;
}

/// Under the names that lessons use.
nlohmann::json numbers_json(const Figure& figure) {
  nlohmann::json numbers = nlohmann::json::object();
  for (const NamedNumber& number : numbers_of(figure)) numbers.emplace(number.name, json_number(number.value.number));
  return numbers;
}

/// Column by column; values that are not finite become null.
nlohmann::json table_json(const Figure& figure) {
  nlohmann::json table = nlohmann::json::object();
  for (const TableColumn& column : figure.table) {
    nlohmann::json& cells = table[column.name] = nlohmann::json::array();
    if (const auto* texts = std::get_if<std::vector<std::string>>(&column.cells)) cells = *texts;
    if (const auto* numbers = std::get_if<std::vector<double>>(&column.cells)) {
      for (const double number : *numbers) cells.push_back(json_number(number));
    }
  }
  return table;
}

Selection selection_of(const PlotOptions& options, int layer) {
  return Selection{.layer = layer,
                   .head = std::max(0, options.head),
                   .token = options.token,
                   .power = options.power,
                   .all_heads = options.all_heads,
                   .arithmetic = arithmetic_of_name(options.arithmetic),
                   .band = options.token < 0};
}

/// The figures by the names that --figure takes.
std::string list_of(const std::vector<Figure>& figures) {
  std::string list;
  for (std::size_t i = 0; i < figures.size(); ++i)
    list += (list.empty() ? "" : ", ") + std::to_string(i) + " (" + figures[i].id + ")";
  return list;
}

bool holds_data(const Series& series) {
  const auto* line = std::get_if<Line>(&series);
  if (!line) return true;
  const Curve& curve = line->curve;
  return curve.pyramid ? curve.pyramid->size() > 0 : !curve.x.empty() && !curve.y.empty();
}

/// The figure that --figure chooses; throws if it is empty.
const Figure& chosen_figure(const PlotKind& kind, const std::vector<Figure>& figures, const Observation& observation,
                            const PlotOptions& options, int layer) {
  if (figures.empty())
    throw BadInput("plot ", options.kind, " has nothing to show of ", observation.preset, ": ",
                   kind.subtitle(observation, selection_of(options, layer)), layers_that_fit(kind, observation.model));
  // Of a map that is compared, the difference.
  const auto place = std::ranges::find(figures, figures.front().id + "_difference", &Figure::id) - figures.begin();
  const bool is_map = options.number < 0 && std::cmp_less(place, figures.size());
  const auto number = static_cast<std::size_t>(is_map ? place : std::max(0, options.number));
  if (number >= figures.size())
    throw UsageError("plot ", options.kind, " has no figure ", number, "; there are ", list_of(figures));
  const Figure& figure = figures[number];
  if (std::ranges::any_of(figure.series, holds_data)) return figure;
  throw BadInput("plot ", options.kind, ": ", figure.id, " is empty at step ", observation.step,
                 ": the snapshot has no curves up to there; give --preset or --recipe instead, which train to it");
}

/// Writes the chosen figure of an observation, with that of a second one over it (null: none).
nlohmann::json write_plot(const PlotKind& kind, const Observation& observation, const Observation* second,
                          const PlotOptions& options, int layer, const CommonOptions& common, Output& output) {
  require_shown(kind, observation, layer, options.head, options.token);
  CurveStore curves, second_curves;
  const Selection selection = selection_of(options, layer);
  std::vector<Figure> figures = prepared_figures(kind, observation, selection, curves);
  if (second) figures = compared_figures(kind, std::move(figures), observation, *second, selection, second_curves);
  const Figure& figure = chosen_figure(kind, figures, observation, options, layer);
  const nlohmann::json written = write_to_paths(figure, options, common, "", output);
  nlohmann::json result = {{"plot", options.kind},
                           {"figure", figure.id},
                           {"step", observation.step},
                           {"checksum", observation.checksum},
                           {"curves", say_curves(figure, output)},
                           {"summary", summary_of(figure)},
                           {"numbers", numbers_json(figure)},
                           {"files", written}};
  if (second) {
    result["against"] = {{"preset", second->preset}, {"step", second->step}, {"checksum", second->checksum}};
    result["differs"] = figure.subtitle.substr(0, figure.subtitle.find(" · "));
    output.line(result["differs"].get<std::string>());
  }
  if (!observation.notes.empty()) result["notes"] = note_list(parse_recipe(observation.recipe, "recipe"));
  if (!figure.table.empty()) result["table"] = table_json(figure);
  return result;
}

/// Trains to the wanted step: --steps, the step that the recipe shows, or its end.
void train_to_shown_step(AnalysedRun& analysed, const Recipe& recipe, std::int64_t until, Output& output) {
  const TrainingRun& run = analysed;
  const std::int64_t last = until >= 0 ? until : recipe.shown_step;
  while (last >= 0 ? run.step() < last : !run.finished()) {
    if (!analysed.train_step()) throw Error(ExitCode::non_finite, run.failure());
    analysed.stop_reason();  // only records its mark: the wanted step may come later
    Interruption::check("at step " + std::to_string(run.step()) + ", before the plot was made");
    const std::int64_t target = last >= 0 ? last : run.trainer().config().steps;  // a command may change the end
    output.progress(recipe.name, static_cast<double>(run.step()) / static_cast<double>(target),
                    [&] { return std::to_string(run.step()) + "/" + std::to_string(target); });
  }
  output.end_progress();
  if (last < 0) analysed.go_to(run.chosen_step());
}

/// Prints the expected time before the analyses begin, where a large model makes them long.
void choose_part(AnalysedRun& analysed, const PlotOptions& options, const Output& output) {
  constexpr double long_seconds = 8, minute = 60;
  const AnalysisSet wanted = analyses_for(options.kind);
  for (const AnalysisInfo& row : analysis_table()) {
    if (options.part >= 0 && has(wanted, row.analysis) && analysed.has_parts(row.analysis))
      analysed.choose_part({{"analysis", row.name}, {"part", options.part}});
  }
  analysed.estimate_work();
  const Observation now = analysed.describe();
  for (const AnalysisWork& work : now.work) {
    const auto row = std::ranges::find(analysis_table(), work.name, &AnalysisInfo::name);
    if (row == analysis_table().end() || !has(wanted, row->analysis) || work.seconds < long_seconds) continue;
    const std::string whole = rough_duration_text(work.seconds);
    std::string text = "the " + std::string(work.name) + " takes about " + whole + " with this model";
    if (work.part < 1) {
      text += "; " + number_text(100 * work.part, 2) + " % of it is made";
    } else if (work.seconds > 2 * minute && analysed.has_parts(row->analysis)) {
      text += "; --part " + number_text(minute / work.seconds, 1) + " computes as much as fits in a minute";
    }
    output.message(text);
  }
}

/// Runs the analyses that the plot shows, with the layer, head and token of the options.
Observation observe(AnalysedRun& analysed, const PlotOptions& options, int layer, Output& output) {
  for (std::size_t i = 1; i < options.snapshots.size(); ++i)
    analysed.choose("compare_runs", {{"path", options.snapshots[i]}});
  if (layer >= 0) analysed.choose_trace(layer);
  of_words([&] {
    if (!options.problem.empty()) analysed.choose("solver_problem", parse_json(options.problem, "--problem"));
    if (!options.influence.empty()) analysed.choose("influence", parse_json(options.influence, "--influence"));
  });
  if (const std::optional<std::string> text = options.text.read()) analysed.ask({"probe_sequence", {{"text", *text}}});
  if (!options.pair.empty()) analysed.ask({"pair", {{"path", options.pair}}});
  for (const std::string& text : options.asked)
    analysed.ask(of_words([&] { return parse_command(parse_json(text, "--ask")); }));
  analysed.ask_for(analyses_for(options.kind));
  analysed.choose_theory(layer, std::max(0, options.head));
  choose_part(analysed, options, output);
  return analysed.observe(analyses_for(options.kind), [] { Interruption::check("while the plot was made"); });
}

/// Analyses a run, or a recipe at the wanted step. With a first observation it is the run of --against, which reads the
/// tokens of the first; else `layer` becomes the number of the chosen layer.
Observation observe_run(const SavedRun& saved, const PlotKind& kind, const PlotOptions& options, int& layer,
                        const Observation* first, const CommonOptions& common, Output& output) {
  say_notes(saved, output);
  const std::unique_ptr<Backend> backend = chosen_backend(saved, common, output);
  AnalysedRun analysed(saved, *backend);
  const Observation untrained = analysed.describe();
  if (first && !fits(kind, untrained.model)) return untrained;
  require_fit(kind, untrained);
  if (!first) layer = layer_of_name(options.layer, untrained.model);
  if (!saved.snapshot) train_to_shown_step(analysed, saved.recipe, options.until, output);
  Observation observation = observe(analysed, options, layer, output);
  const std::optional<Command> same = first ? same_sequence(*first, observation) : std::nullopt;
  if (!same) return observation;
  try {
    analysed.ask(*same);
  } catch (const Error& error) {
    output.message("B reads a sequence of its own: " + std::string(error.what()));
  }
  return observe(analysed, options, layer, output);
}

}  // namespace

const PlotKind& plot_kind_named(const std::string& name) {
  if (const PlotKind* kind = find_plot_kind(name)) return *kind;
  std::vector<std::string> names = names_of(paper_plots(), &PaperPlot::id);
  for (const PlotKind& known : plot_kinds()) names.emplace_back(known.id);
  throw UsageError("there is no plot \"", name, "\"", which_there_are(name, names));
}

nlohmann::json plot(const PlotOptions& options, const CommonOptions& common, Output& output) {
  const Interruption noticed;
  if (const PaperPlot* paper = find_paper_plot(options.kind)) return paper_plot(*paper, options, common, output);
  const PlotKind& kind = plot_kind_named(options.kind);
  require_path(options);
  if (!kind.needs_model) {
    for (const auto& [option, value] : {std::pair{"--layer", options.layer}, {"--against", options.against}}) {
      if (!value.empty())
        throw UsageError("plot ", options.kind, " is an experiment without a model and takes no ", option);
    }
    return write_plot(kind, observation_without_model(kind, options), nullptr, options, -1, common, output);
  }
  StartOptions start = options.start;
  if (!options.snapshots.empty()) start.snapshot = options.snapshots.front();
  const SavedRun saved = starting_run(start, common, "tiny");
  if (saved.folder && options.until >= 0)
    throw UsageError("--steps trains; --step N chooses a checkpoint of ", start.snapshot);
  int layer = -1;
  const Observation observation = observe_run(saved, kind, options, layer, nullptr, common, output);
  std::optional<Observation> second;
  if (!options.against.empty())
    second = observe_run(open_named(options.against), kind, options, layer, &observation, common, output);
  Interruption::check("before the plot was written");
  return write_plot(kind, observation, second ? &*second : nullptr, options, layer, common, output);
}

}  // namespace afterglow
