// `afterglow train`: trains without a window and writes snapshot, metrics, recipe and figures.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <new>
#include <nlohmann/json.hpp>

#include "app/cli/interruption.h"
#include "app/cli/start.h"
#include "app/ranks/started_ranks.h"
#include "app/window/window.h"
#include "core/backend/level/cpu_level.h"
#include "core/engine/session/analysed_run.h"
#include "core/engine/training/forecast_objective.h"
#include "core/figure/files/figure_files.h"
#include "core/figure/files/page.h"
#include "core/io/csv.h"
#include "core/io/json_file.h"
#include "core/io/safetensors.h"
#include "views/plots/file_stem.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {
namespace {

struct TrainResults {
  std::filesystem::path snapshot, metrics, recipe, figure_folder;
  std::size_t figures = 0;         ///< their number in `files`, each in several formats
  std::vector<std::string> files;  ///< files of the figures
};

namespace fs = std::filesystem;

std::vector<double> column(const Values& curve) {
  const std::span<const double> numbers = curve.span();
  return {numbers.begin(), numbers.end()};
}

std::vector<CsvColumn> metrics_of(const RunCurves& curves, const MeasureNames& names) {
  std::string quality = names.quality;
  std::ranges::replace(quality, ' ', '_');
  std::vector<double> steps, held_out(curves.loss.size(), NAN);
  for (std::size_t i = 0; i < curves.loss.size(); ++i)
    steps.push_back(static_cast<double>(curves.first_step) + static_cast<double>(i));
  for (std::size_t i = 0; i < curves.held_out_step.size(); ++i) {
    const auto step = static_cast<std::int64_t>(curves.held_out_step[i]);
    if (step >= curves.first_step)  // a resumed run includes evaluations from before
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
  return columns;
}

/// A new folder, or with --force the existing one.
fs::path make_figure_folder(const fs::path& out, const std::string& stem, bool force) {
  for (int number = 1;; ++number) {
    const fs::path folder = out / ("figures_" + stem + (number > 1 ? "_" + std::to_string(number) : ""));
    std::error_code failed;
    if (fs::create_directory(folder, failed)) return folder;
    const fs::file_status there = fs::symlink_status(folder, failed);
    if (force && fs::is_directory(there)) return folder;
    if (!fs::exists(there)) throw BadInput(folder.string(), ": cannot make this folder; choose another with --out");
  }
}

/// The figures that --figures names.
std::vector<Figure> chosen_figures(AnalysedRun& analysed, const std::string& which) {
  const std::vector<std::string> page = first_page_plots(analysed.describe().model);
  const auto is_chosen = [&](const PlotKind& kind) {
    return which == "all" || std::ranges::find(page, kind.id) != page.end();
  };
  AnalysisSet analyses = 0;
  for (const PlotKind& kind : plot_kinds()) analyses |= is_chosen(kind) ? analyses_for(kind.id) : 0;
  const Observation observation = analysed.observe(analyses, [] {
    if (Interruption::is_urgent()) Interruption::check("while the figures were made");
  });
  CurveStore curves;
  std::vector<Figure> figures;
  for (const PlotKind& kind : plot_kinds()) {
    if (is_chosen(kind))
      std::ranges::move(prepared_figures(kind, observation, {}, curves), std::back_inserter(figures));
  }
  return figures;
}

void write_figures(AnalysedRun& analysed, const TrainOptions& options, bool overwrite, const Interruption& interruption,
                   TrainResults& results, Output& output) {
  std::vector<FigureFormat> formats = {FigureFormat::svg, FigureFormat::csv};
  if (has_page_writer()) formats.insert(formats.end(), {FigureFormat::pdf, FigureFormat::png});
  output.progress("figures", 0, [] { return "analyses"; });
  const std::vector<Figure> figures = chosen_figures(analysed, options.figures);
  const ModelSummary model = analysed.describe().model;
  for (std::size_t i = 0; i < figures.size() && !interruption.is_urgent(); ++i) {
    output.progress("figures", static_cast<double>(i + 1) / static_cast<double>(figures.size()),
                    [&] { return std::to_string(i + 1) + "/" + std::to_string(figures.size()); });
    const fs::path path = results.figure_folder / (file_stem(figures[i].id, model) + ".svg");
    for (const auto& file : write_figure(figures[i], path, formats, SizePreset::one_column,
                                         {.overwrite = overwrite, .shows_title = options.titles}))
      results.files.push_back(file.string());
    results.figures = i + 1;
  }
  output.end_progress();
}

/// Other folders for a snapshot, the nearest first.
std::vector<fs::path> rescue_folders() {
  std::error_code ignored;
  std::vector<fs::path> folders{fs::current_path(ignored)};
  if (const char* home = std::getenv("HOME")) folders.emplace_back(home);
  folders.push_back(fs::temp_directory_path(ignored));
  std::erase_if(folders, [](const fs::path& folder) { return folder.empty(); });
  return folders;
}

constexpr const char* on_the_way = "on_the_way";  ///< key in the metadata of a snapshot that the final one replaces

bool is_on_the_way_of(const TrainingRun& run, const fs::path& path) {
  try {
    const Snapshot saved = read_snapshot(path);
    return saved.file.metadata.contains(on_the_way) && saved.step <= common_step(saved.recipe, run.recipe());
  } catch (const Error&) {
    return false;  // not a file of this training
  }
}

std::string way_on(const fs::path& snapshot) { return "continue with: afterglow train --resume " + snapshot.string(); }

/// Writes a snapshot. If the folder cannot take it, writes it to another one and throws an Error that names it, so that
/// a full disk does not lose hours of training.
fs::path write_or_rescue(const Snapshot& snapshot, const fs::path& folder, const CommonOptions& common) {
  const std::string name = snapshot_stem(snapshot.recipe, snapshot.step) + ".safetensors";
  try {
    return write_safetensors(folder / name, snapshot.file, existing_files(common));
  } catch (const Error& error) {
    for (const fs::path& other : rescue_folders()) {
      fs::path rescued;
      try {
        rescued = write_safetensors(other / name, snapshot.file, Existing::keep);
      } catch (const Error&) {
        continue;
      }
      throw Error(error.code(), error.what(), ". The training is saved elsewhere; ", way_on(rescued));
    }
    throw;
  }
}

/// The end of a training by `error`: writes the state that was saved last, and throws `error` with the command that
/// continues it.
[[noreturn]] void keep_what_is_left(const TrainingRun& run, const TrainOptions& options, const CommonOptions& common,
                                    const Error& error) {
  const std::optional<Snapshot> kept = run.kept_snapshot();
  if (!kept || kept->step <= run.oldest_step()) throw error;
  const fs::path path = write_or_rescue(*kept, options.out, common);
  throw Error(error.code(), error.what(), " Step ", kept->step, " is saved; ", way_on(path),
              error.code() == ExitCode::no_gpu ? " --device cpu" : "");
}

/// The last two snapshots of a running training, from which it can continue after a kill or a power cut. Their metadata
/// mark them, so that the end of the training also removes those of killed processes.
class SavesOnTheWay {
 public:
  SavesOnTheWay(const TrainOptions& options, std::int64_t step, Output& output)
      : folder_(options.out), schedule_(options.saves, step), output_(output) {}
  /// Writes one if it is due. If that fails, prints a message, and the training continues.
  void after_step(const TrainingRun& run) {
    if (!schedule_.is_due(run.step())) return;
    try {
      Snapshot snapshot = run.snapshot();
      snapshot.file.metadata[on_the_way] = "true";
      const std::string name = snapshot_stem(snapshot.recipe, snapshot.step) + ".safetensors";
      written_.push_back(write_safetensors(folder_ / name, snapshot.file, Existing::keep));
    } catch (const Error& error) {
      output_.message("no snapshot of step ", run.step(), ": ", error.what(), ". Training continues");
      return;
    }
    if (written_.size() <= 2) return;
    std::error_code ignored;
    fs::remove(written_.front(), ignored);
    written_.erase(written_.begin());
  }
  /// Removes the snapshots of the running training, after the final one has been written.
  void remove(const TrainingRun& run) const {
    const std::string stem = snapshot_stem(run.recipe(), 0);
    const std::string_view beginning = std::string_view(stem).substr(0, stem.size() - 1);
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(beginning) && name.ends_with(".safetensors") && is_on_the_way_of(run, entry.path()))
        fs::remove(entry.path(), ignored);
    }
  }

 private:
  std::filesystem::path folder_;
  SaveSchedule schedule_;
  Output& output_;
  std::vector<std::filesystem::path> written_;  ///< the older one first
};

/// Writes the present step and the curves of the whole training: first the snapshot, the only file from which training
/// can continue, then curves, recipe and figures. After a request of the system to end, figures are left out: they can
/// be made from the snapshot.
TrainResults write_results(AnalysedRun& analysed, const RunCurves& curves, const TrainOptions& options,
                           const CommonOptions& common, const Interruption& interruption, Output& output) {
  TrainingRun& run = analysed;
  const Existing existing = existing_files(common);
  TrainResults results;
  std::string stem;
  const auto write_snapshot = [&] {
    stem = snapshot_stem(run.recipe(), run.step());
    results.snapshot = write_or_rescue(run.snapshot(), options.out, common);
  };
  try {
    write_snapshot();
  } catch (const std::bad_alloc&) {
    write_snapshot();  // memory of the first attempt is free again, and more may be by now
  }
  if (!run.failure().empty())
    throw Error(ExitCode::non_finite, run.failure(), " Snapshot: ", results.snapshot.string());
  try {
    results.metrics =
        write_csv(options.out / ("metrics_" + stem + ".csv"), metrics_of(curves, run.trainer().measures()), existing);
    results.recipe = write_file_atomically(options.out / ("recipe_" + stem + ".json"),
                                           to_json(run.recipe()).dump(2) + "\n", existing);
    if (options.figures == "none" || interruption.is_urgent()) return results;
    results.figure_folder = make_figure_folder(options.out, stem, common.force);
    write_figures(analysed, options, common.force, interruption, results, output);
  } catch (const Error& error) {
    throw Error(error.code(), error.what(), ". The snapshot is written: ", results.snapshot.string());
  } catch (const std::bad_alloc&) {
    throw Error(ExitCode::out_of_memory,
                "not enough memory for all results. The snapshot is written: ", results.snapshot.string());
  }
  return results;
}

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
  const std::int64_t chosen = analysed.chosen_step();
  if (chosen == analysed.step()) return;
  output.line("trained to step ", analysed.step(), "; the held-out result was best at step ", chosen, ", which counts");
  analysed.go_to(chosen);
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
    if (ending.stopped_by) output.line("stopped at step ", run.step(), ": ", *ending.stopped_by);
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
  Trainer& trainer = run.trainer();
  return {curves.loss.empty() ? NAN : curves.loss.back(), trainer.evaluate(trainer.config().evaluate_examples),
          trainer.measures().quality, trainer.checksum(),
          trainer.forecast() != nullptr ? trainer.score() : ForecastScore{}};
}

/// The build of the kernels that computed these bits, where the program contains several; else empty.
std::string level_of(const Backend& backend) { return std::string(backend.name() == "cpu" ? cpu_level() : ""); }

void print_outcome(const Outcome& outcome, const TrainResults& results, std::int64_t step, double steps_per_second,
                   const Backend& backend, Output& output) {
  const std::string level = level_of(backend), checksum = outcome.checksum + (level.empty() ? "" : " (" + level + ")");
  output.print("step %lld  loss %.4f  held-out %s %.4f  checksum %s  %.1f steps/s", static_cast<long long>(step),
               outcome.loss, outcome.quality.c_str(), outcome.accuracy, checksum.c_str(), steps_per_second);
  const ForecastScore& score = outcome.score;
  if (score.windows > 0)
    output.print("test MSE %.4f  MAE %.4f  over %lld windows", score.mse, score.mae,
                 static_cast<long long>(score.windows));
  output.line("snapshot ", results.snapshot.string());
  output.line("metrics  ", results.metrics.string());
  if (results.figures > 0)
    output.line("figures  ", results.figures, ", ", results.files.size(), " files in ", results.figure_folder.string());
}

/// In one process, or as one of several.
nlohmann::json train_here(const TrainOptions& options, const CommonOptions& common, Ranks* ranks, Output& output) {
  const Interruption interruption;  // until all files are written
  SavedRun saved = starting_run(options.start, common, "tiny");
  saved.folder.reset();
  nlohmann::json& origin = saved.recipe.checkpoint;  // whose optimiser begins here
  if (!saved.snapshot && origin.is_object() && origin.erase("step") > 0) saved.recipe.shown_step = 0;
  say_notes(saved, output);
  const std::unique_ptr<Backend> backend = chosen_backend(saved, common, output);
  if (is_first(ranks)) make_folder(options.out);
  AnalysedRun analysed(saved, *backend);
  TrainingRun& run = analysed;
  if (ranks) run.trainer().join(*ranks);
  const std::size_t parameters = run.trainer().parameters().count();
  const Recipe recipe = run.recipe();
  output.message(recipe.name, ": ", recipe.title, " · ", parameters, " parameters · seed ", recipe.seed, " · ",
                 backend->description(), ranks ? " · " + std::to_string(ranks->size()) + " processes" : "");
  const nlohmann::json series = say_series(run.trainer().task(), output);

  const std::int64_t until = options.until >= 0 ? options.until : std::numeric_limits<std::int64_t>::max();
  if (run.step() > 0 && run.step() >= std::min(until, run.trainer().config().steps))
    output.message("nothing is left to train: this run is at step ", run.step(),
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
