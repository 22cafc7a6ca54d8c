// `afterglow train`: trains without a window and writes snapshot, metrics, recipe and figures.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/cli/interruption.h"
#include "app/cli/start.h"
#include "core/engine/session/analysed_run.h"
#include "core/engine/training/forecast_objective.h"
#include "core/figure/files/figure_files.h"
#include "core/figure/files/page_writer.h"
#include "core/io/csv.h"
#include "core/io/error.h"
#include "core/io/json_file.h"
#include "views/figures/plot_kinds.h"

namespace afterglow {

namespace {

std::string status_text(const RunCurves& curves, std::int64_t step, std::int64_t last, double steps_per_second) {
  char text[160];
  const double loss = curves.loss.empty() ? 0 : curves.loss.back();
  const double held_out = curves.held_out_accuracy.empty() ? NAN : curves.held_out_accuracy.back();
  std::snprintf(text, sizeof text, "%lld/%lld  loss %.3f  held-out %.3f  %.0f steps/s", static_cast<long long>(step),
                static_cast<long long>(last), loss, held_out, steps_per_second);
  return text;
}

std::vector<double> column(const Values& curve) {
  const std::span<const double> numbers = curve.span();
  return {numbers.begin(), numbers.end()};
}

void write_metrics(const std::filesystem::path& path, const RunCurves& curves, const MeasureNames& names) {
  std::string quality = names.quality;
  std::ranges::replace(quality, ' ', '_');
  std::vector<double> steps, held_out(curves.loss.size(), NAN);
  for (std::size_t i = 0; i < curves.loss.size(); ++i)
    steps.push_back(static_cast<double>(curves.first_step) + static_cast<double>(i));
  for (std::size_t i = 0; i < curves.held_out_step.size(); ++i) {
    const auto step = static_cast<std::int64_t>(curves.held_out_step[i]);
    if (step >= curves.first_step)  // a resumed run remembers evaluations from before
      held_out[static_cast<std::size_t>(step - curves.first_step)] = curves.held_out_accuracy[i];
  }
  std::vector<CsvColumn> columns = {
      {"step", steps},
      {names.loss_unit.empty() ? "loss" : "loss [" + names.loss_unit + "]", column(curves.loss)},
      {quality, column(curves.accuracy)},
      {"held_out_" + quality, held_out},
      {"learning_rate", column(curves.learning_rate)},
      {"gradient_norm", column(curves.gradient_norm)}};
  for (const NamedCurve& layer : curves.layer_gradient_norms)
    columns.push_back({"gradient_norm " + layer.name, column(layer.values)});
  write_csv(path, columns);
}

std::vector<std::string> write_figures(const Observation& observation, const std::filesystem::path& folder,
                                       const std::string& stem, const WriteOptions& write_options) {
  std::vector<std::string> written;
  std::vector<FigureFormat> formats = {FigureFormat::svg, FigureFormat::csv};
  if (has_page_writer()) formats.insert(formats.end(), {FigureFormat::pdf, FigureFormat::png});
  CurveStore curves;
  for (const PlotKind& kind : plot_kinds()) {
    for (const Figure& figure : prepared_figures(kind, observation, Selection(), curves)) {
      const std::filesystem::path path = folder / (figure.id + "_" + stem + ".svg");
      for (const auto& file : write_figure(figure, path, formats, SizePreset::one_column, write_options)) {
        written.push_back(file.string());
      }
    }
  }
  return written;
}

/// One JSON line of the step that has just been trained.
void print_step(const TrainingRun& run) {
  const RunCurves curves = run.curves();
  const nlohmann::json line{{"step", run.step()},
                            {"loss", json_number(curves.loss.back())},
                            {"accuracy", json_number(curves.accuracy.back())}};
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

/// Trains to the step `last` or an interruption; false after a step that was not finite.
bool train_until(AnalysedRun& analysed, std::int64_t last, const Interruption& interruption, bool follow,
                 const std::function<void()>& show) {
  while (analysed.run().step() < last && !analysed.run().finished() && !interruption.wanted()) {
    const bool finite = analysed.train_step();
    show();
    if (!finite) return false;
    if (follow) print_step(analysed.run());
  }
  return true;
}

/// After the device was lost: writes the state that was kept last, and throws `error` with the way on.
[[noreturn]] void keep_what_is_left(const TrainingRun& run, const std::filesystem::path& folder, bool force,
                                    const Error& error) {
  const std::optional<Snapshot> kept = run.kept_snapshot();
  if (!kept) throw error;
  const auto path = output_path(folder / (snapshot_stem(kept->recipe, kept->step) + ".safetensors"), force);
  write_snapshot(path, *kept);
  throw Error(error.code(), std::string(error.what()) + " Step " + std::to_string(kept->step) +
                                " is kept; go on with: afterglow train --resume " + path.string() + " --device cpu");
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed)
    throw Error(ExitCode::bad_input,
                folder.string() + ": cannot make this folder (" + failed.message() + "); choose another with --out");
}

/// How a training ended.
struct Ending {
  bool finite = true, interrupted = false;
  double steps_per_second = 0;
};

/// Trains to the run's end, which a command of the recipe may move, or to the step `until`; shows how far it is.
Ending train_and_show(AnalysedRun& analysed, std::int64_t until, const TrainOptions& options,
                      const CommonOptions& common, Output& output) {
  TrainingRun& run = analysed.run();
  const Interruption interruption;
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t first = run.step();
  const auto speed = [&] {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return static_cast<double>(run.step() - first) / std::max(seconds, 1e-9);
  };
  const std::string name = run.recipe().name;
  Ending ending;
  try {
    ending.finite = train_until(analysed, until, interruption, options.follow, [&] {
      const std::int64_t last = std::min(until, run.trainer().config().steps);
      const double share = static_cast<double>(run.step()) / static_cast<double>(last);
      output.progress(name, share, [&] { return status_text(run.curves(), run.step(), last, speed()); });
    });
  } catch (const Error& error) {
    output.end_progress();
    if (error.code() == ExitCode::no_gpu) keep_what_is_left(run, options.out, common.force, error);
    throw;
  }
  output.end_progress();
  ending.steps_per_second = speed();
  ending.interrupted = interruption.wanted();
  return ending;
}

/// Where the held-out result was best; the end without `patience`.
void go_to_chosen_step(AnalysedRun& analysed, Output& output) {
  const TrainingRun& run = analysed.run();
  if (run.chosen_step() == run.step()) return;
  output.line("trained to step " + std::to_string(run.step()) + "; the held-out result was best at step " +
              std::to_string(run.chosen_step()) + ", which counts");
  analysed.go_to(run.chosen_step());
}

/// What is left in the folder.
struct Results {
  std::filesystem::path snapshot, metrics, recipe;
  std::vector<std::string> figures;
};

/// Writes the step that the run is at and the curves of the whole training; of a non-finite one the snapshot alone.
Results write_results(AnalysedRun& analysed, const RunCurves& curves, bool finite, const TrainOptions& options,
                      bool force) {
  TrainingRun& run = analysed.run();
  const std::string stem = snapshot_stem(run.recipe(), run.step());
  Results results;
  results.snapshot = output_path(options.out / (stem + ".safetensors"), force);
  write_snapshot(results.snapshot, run.snapshot());
  if (!finite) throw Error(ExitCode::non_finite, run.failure() + " Snapshot: " + results.snapshot.string());
  results.metrics = output_path(options.out / ("metrics_" + stem + ".csv"), force);
  write_metrics(results.metrics, curves, run.trainer().measures());
  results.recipe = output_path(options.out / ("recipe_" + stem + ".json"), force);
  write_json(results.recipe, to_json(run.recipe()));
  if (options.figures)
    results.figures = write_figures(analysed.observe(all_analyses), options.out, stem,
                                    {.overwrite = force, .shows_title = options.titles});
  return results;
}

/// The numbers of a trained model.
struct Outcome {
  double loss = NAN, accuracy = 0;
  std::string quality;  ///< what `accuracy` is called
  std::string checksum;
  ForecastScore score;  ///< of a forecaster; of no windows otherwise
};

Outcome outcome_of(TrainingRun& run, const RunCurves& curves) {
  Outcome outcome;
  if (!curves.loss.empty()) outcome.loss = curves.loss.back();
  Trainer& trainer = run.trainer();
  outcome.accuracy = trainer.evaluate(trainer.config().evaluate_examples);
  outcome.quality = trainer.measures().quality;
  outcome.checksum = trainer.checksum();
  if (trainer.forecast() != nullptr) outcome.score = trainer.score();
  return outcome;
}

void print_outcome(const Outcome& outcome, const Results& results, std::int64_t step, double steps_per_second,
                   const std::filesystem::path& folder, Output& output) {
  char text[200];
  std::snprintf(text, sizeof text, "step %lld  loss %.4f  held-out %s %.4f  checksum %s  %.1f steps/s",
                static_cast<long long>(step), outcome.loss, outcome.quality.c_str(), outcome.accuracy,
                outcome.checksum.c_str(), steps_per_second);
  output.line(text);
  const ForecastScore& score = outcome.score;
  if (score.windows > 0) {
    std::snprintf(text, sizeof text, "test MSE %.4f  MAE %.4f  over %lld windows", score.mse, score.mae,
                  static_cast<long long>(score.windows));
    output.line(text);
  }
  output.line("snapshot " + results.snapshot.string());
  output.line("metrics  " + results.metrics.string());
  if (!results.figures.empty())
    output.line("figures  " + std::to_string(results.figures.size()) + " files in " + folder.string());
}

}  // namespace

nlohmann::json train(const TrainOptions& options, const CommonOptions& common, Output& output) {
  const SavedRun saved = starting_run(options.start, common, "tiny");
  const std::unique_ptr<Backend> backend = make_backend(common.device, common.threads);
  AnalysedRun analysed(saved, *backend);
  TrainingRun& run = analysed.run();
  make_folder(options.out);
  const std::size_t parameters = run.trainer().parameters().count();
  const Recipe recipe = run.recipe();
  output.message(recipe.name + ": " + recipe.title + " · " + std::to_string(parameters) + " parameters · seed " +
                 std::to_string(recipe.seed) + " · " + backend->description());

  const std::int64_t until = options.until >= 0 ? options.until : std::numeric_limits<std::int64_t>::max();
  const Ending ending = train_and_show(analysed, until, options, common, output);
  const RunCurves curves = run.curves();
  go_to_chosen_step(analysed, output);
  const Results results = write_results(analysed, curves, ending.finite, options, common.force);
  const Outcome outcome = outcome_of(run, curves);
  print_outcome(outcome, results, run.step(), ending.steps_per_second, options.out, output);
  if (ending.interrupted)
    throw Error(ExitCode::interrupted, "interrupted at step " + std::to_string(run.step()) + "; go on with --resume " +
                                           results.snapshot.string());
  nlohmann::json result = {{"steps", run.step()},
                           {"loss", json_number(outcome.loss)},
                           {"accuracy", json_number(outcome.accuracy)},
                           {"checksum", outcome.checksum},
                           {"device", backend->name()},
                           {"seed", recipe.seed},
                           {"steps_per_second", ending.steps_per_second},
                           {"snapshot", results.snapshot.string()},
                           {"metrics", results.metrics.string()},
                           {"recipe", results.recipe.string()},
                           {"parameters", parameters},
                           {"figures", results.figures}};
  if (outcome.score.windows > 0) {
    result["mse"] = outcome.score.mse;
    result["mae"] = outcome.score.mae;
  }
  return result;
}

}  // namespace afterglow
