// `afterglow train`: trains without a window and writes snapshot, metrics, recipe and figures.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <functional>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>

#include "app/cli/interruption.h"
#include "app/cli/last_resort.h"
#include "app/cli/start.h"
#include "app/cli/train_results.h"
#include "app/ranks/started_ranks.h"
#include "core/backend/level/cpu_level.h"
#include "core/engine/session/analysed_run.h"
#include "core/engine/training/forecast_objective.h"
#include "core/io/error.h"
#include "core/io/json_file.h"

namespace afterglow {

namespace {

std::string status_text(const RunCurves& curves, std::int64_t step, std::int64_t last, double steps_per_second) {
  char text[160];
  const double loss = curves.loss.empty() ? 0 : curves.loss.back();
  char held_out[40] = "";
  if (!curves.held_out_accuracy.empty())
    std::snprintf(held_out, sizeof held_out, "  held-out %.3f", curves.held_out_accuracy.back());
  std::snprintf(text, sizeof text, "%lld/%lld  loss %.3f%s  %.0f steps/s", static_cast<long long>(step),
                static_cast<long long>(last), loss, held_out, steps_per_second);
  return text;
}

/// One JSON line about the step that has just been trained.
void print_step(const TrainingRun& run) {
  const RunCurves curves = run.curves();
  const nlohmann::json line{{"step", run.step()},
                            {"loss", json_number(curves.loss.back())},
                            {"accuracy", json_number(curves.accuracy.back())},
                            {"batch_accuracy", json_number(curves.accuracy.back())}};
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

/// Among several processes only the first one writes and prints.
bool is_first(const Ranks* ranks) { return ranks == nullptr || ranks->rank() == 0; }

/// Whether to end after this step: all processes end when one of them gets a request to end.
bool ends_here(Ranks* ranks) {
  const bool is_wanted = ranks != nullptr ? ranks->any(Interruption::wanted()) : Interruption::wanted();
  if (is_wanted && !Interruption::wanted()) std::raise(SIGTERM);
  return is_wanted;
}

/// Trains to the step `last`, an interruption, a step that was not finite, or a stop condition, which is then returned.
/// The last step is saved as a result.
std::optional<std::string> train_until(AnalysedRun& analysed, std::int64_t last, Ranks* ranks, SavesOnTheWay& saves,
                                       bool follow, const std::function<void()>& show) {
  std::optional<std::string> reason;
  const auto goes_on = [&] { return !reason && analysed.step() < last && !analysed.finished() && !ends_here(ranks); };
  for (bool is_left = goes_on(); is_left;) {
    const bool finite = analysed.train_step();
    if (memory_is_short()) throw std::bad_alloc();
    show();
    if (!finite) return reason;
    reason = analysed.stop_reason();
    is_left = goes_on();
    if (!is_first(ranks)) continue;
    if (is_left) saves.after_step(analysed);
    if (follow) print_step(analysed);
  }
  return reason;
}

/// How a training ended.
struct Ending {
  bool interrupted = false;
  double steps_per_second = 0;
  RunCurves curves;                       ///< of the whole training, even if an earlier step is the result
  std::optional<std::string> stopped_by;  ///< the condition that ended it
};

/// The step of the best held-out result; the last step without `patience`.
void go_to_chosen_step(AnalysedRun& analysed, Output& output) {
  const TrainingRun& run = analysed;
  if (run.chosen_step() == run.step()) return;
  output.line("trained to step " + std::to_string(run.step()) + "; the held-out result was best at step " +
              std::to_string(run.chosen_step()) + ", which counts");
  analysed.go_to(run.chosen_step());
}

/// Trains to the run's end, which a command of the recipe may change, or to the step `until`; shows the progress.
Ending train_and_show(AnalysedRun& analysed, std::int64_t until, Ranks* ranks, SavesOnTheWay& saves,
                      const TrainOptions& options, const CommonOptions& common, Output& output) {
  TrainingRun& run = analysed;
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t first = run.step();
  const auto speed = [&] {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return static_cast<double>(run.step() - first) / std::max(seconds, 1e-9);
  };
  const std::string name = run.recipe().name;
  Ending ending;
  try {
    ending.stopped_by = train_until(analysed, until, ranks, saves, options.follow, [&] {
      const std::int64_t last = std::min(until, run.trainer().config().steps);
      const double share = static_cast<double>(run.step()) / static_cast<double>(last);
      output.progress(name, share, [&] { return status_text(run.curves(), run.step(), last, speed()); });
    });
    output.end_progress();
    if (ending.stopped_by) output.line("stopped at step " + std::to_string(run.step()) + ": " + *ending.stopped_by);
    ending.steps_per_second = speed();
    ending.curves = run.curves();
    go_to_chosen_step(analysed, output);
  } catch (const Error& error) {
    output.end_progress();
    if (!is_first(ranks)) throw;
    keep_what_is_left(run, options, common, error);
  } catch (const std::bad_alloc&) {
    output.end_progress();
    if (!is_first(ranks)) throw;
    keep_what_is_left(run, options, common,
                      Error(ExitCode::out_of_memory, "not enough memory; choose a smaller model, batch or length."));
  }
  ending.interrupted = Interruption::wanted();
  return ending;
}

/// The numbers of a trained model.
struct Outcome {
  double loss = NAN, accuracy = 0;
  std::string quality;  ///< name of the accuracy
  std::string checksum;
  ForecastScore score;  ///< of a forecaster; otherwise of no windows
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

/// The build of the kernels that computed these bits, where the program contains several; else empty.
std::string level_of(const Backend& backend) { return std::string(backend.name() == "cpu" ? cpu_level() : ""); }

void print_outcome(const Outcome& outcome, const TrainResults& results, std::int64_t step, double steps_per_second,
                   const Backend& backend, Output& output) {
  const std::string level = level_of(backend), checksum = outcome.checksum + (level.empty() ? "" : " (" + level + ")");
  output.print("step %lld  loss %.4f  held-out %s %.4f  checksum %s  %.1f steps/s", static_cast<long long>(step),
               outcome.loss, outcome.quality.c_str(), outcome.accuracy, checksum.c_str(), steps_per_second);
  const ForecastScore& score = outcome.score;
  if (score.windows > 0) {
    output.print("test MSE %.4f  MAE %.4f  over %lld windows", score.mse, score.mae,
                 static_cast<long long>(score.windows));
  }
  output.line("snapshot " + results.snapshot.string());
  output.line("metrics  " + results.metrics.string());
  if (results.figures > 0)
    output.line("figures  " + std::to_string(results.figures) + ", " + std::to_string(results.files.size()) +
                " files in " + results.figure_folder.string());
}

/// In one process, or as one of several.
nlohmann::json train_here(const TrainOptions& options, const CommonOptions& common, Ranks* ranks, Output& output) {
  const Interruption interruption;  // until all files are written
  SavedRun saved = starting_run(options.start, common, "tiny");
  saved.folder.reset();
  nlohmann::json& origin = saved.recipe.checkpoint;  // whose optimiser begins here
  if (!saved.snapshot && origin.is_object() && origin.erase("step") > 0) saved.recipe.shown_step = 0;
  say_notes(saved, output);
  const std::unique_ptr<Backend> backend = chosen_backend(common);
  if (is_first(ranks)) make_folder(options.out);
  AnalysedRun analysed(saved, *backend);
  TrainingRun& run = analysed;
  if (ranks) run.trainer().join(*ranks);
  const std::size_t parameters = run.trainer().parameters().count();
  const Recipe recipe = run.recipe();
  output.message(recipe.name + ": " + recipe.title + " · " + std::to_string(parameters) + " parameters · seed " +
                 std::to_string(recipe.seed) + " · " + backend->description() +
                 (ranks ? " · " + std::to_string(ranks->size()) + " processes" : ""));
  const nlohmann::json series = say_series(run.trainer().task(), output);

  const std::int64_t until = options.until >= 0 ? options.until : std::numeric_limits<std::int64_t>::max();
  if (run.step() > 0 && run.step() >= std::min(until, run.trainer().config().steps))
    output.message("nothing is left to train: this run is at step " + std::to_string(run.step()) +
                   " already; give a larger --steps to continue");
  if (!options.stop_when.empty()) of_words([&] { analysed.choose_stop({{"condition", options.stop_when}}); });
  SavesOnTheWay saves(options, run.step(), output);
  const Ending ending = train_and_show(analysed, until, ranks, saves, options, common, output);
  if (!is_first(ranks)) return nullptr;
  const TrainResults results = write_results(analysed, ending.curves, options, common, interruption, output);
  saves.remove(run);
  const auto require_end = [&] {
    interruption.check("at step " + std::to_string(run.step()) +
                       ", which is saved; continue with: afterglow train --resume " + results.snapshot.string());
  };
  if (interruption.is_urgent()) require_end();
  const Outcome outcome = outcome_of(run, ending.curves);
  print_outcome(outcome, results, run.step(), ending.steps_per_second, *backend, output);
  if (ending.interrupted) require_end();
  nlohmann::json result = {{"steps", run.step()},
                           {"loss", json_number(outcome.loss)},
                           {"accuracy", json_number(outcome.accuracy)},
                           {"held_out_accuracy", json_number(outcome.accuracy)},
                           {"checksum", outcome.checksum},
                           {"device", backend->name()},
                           {"seed", recipe.seed},
                           {"steps_per_second", ending.steps_per_second},
                           {"snapshot", results.snapshot.string()},
                           {"metrics", results.metrics.string()},
                           {"recipe", results.recipe.string()},
                           {"parameters", parameters},
                           {"figures", results.files}};
  result.update(series);
  if (const std::string level = level_of(*backend); !level.empty()) result["cpu_level"] = level;
  if (ending.stopped_by) result["stopped_by"] = *ending.stopped_by;
  if (outcome.score.windows > 0) {
    result["mse"] = outcome.score.mse;
    result["mae"] = outcome.score.mae;
  }
  return result;
}

}  // namespace

nlohmann::json train(const TrainOptions& options, const CommonOptions& common, Output& output) {
  output.json = output.json || options.follow;  // one reader parses the lines of the steps and of the result
  const std::unique_ptr<Ranks> ranks = started_ranks();
  Output own = output;
  own.json = own.json || !is_first(ranks.get());
  own.quiet = own.quiet || !is_first(ranks.get());
  nlohmann::json result =
      among_ranks(ranks.get(), output, [&] { return train_here(options, common, ranks.get(), own); });
  output.notes = own.notes;
  return result;
}

}  // namespace afterglow
