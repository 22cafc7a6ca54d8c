// Writes the files of a training.
#include "app/cli/train_results.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <optional>

#include "app/cli/start.h"
#include "app/window/window.h"
#include "core/figure/files/figure_files.h"
#include "core/figure/files/page_writer.h"
#include "core/io/csv.h"
#include "core/io/safetensors_writer.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {

namespace fs = std::filesystem;

namespace {

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
    if (!fs::exists(there))
      throw Error(ExitCode::bad_input, folder.string() + ": cannot make this folder; choose another with --out");
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
  const Observation observation = analysed.observe(analyses);
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
  for (std::size_t i = 0; i < figures.size() && !interruption.is_urgent(); ++i) {
    output.progress("figures", static_cast<double>(i + 1) / static_cast<double>(figures.size()),
                    [&] { return std::to_string(i + 1) + "/" + std::to_string(figures.size()); });
    const fs::path path = results.figure_folder / (figures[i].id + ".svg");
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

}  // namespace

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
      throw Error(error.code(), std::string(error.what()) + ". The training is saved elsewhere; " + way_on(rescued));
    }
    throw;
  }
}

void keep_what_is_left(const TrainingRun& run, const TrainOptions& options, const CommonOptions& common,
                       const Error& error) {
  const std::optional<Snapshot> kept = run.kept_snapshot();
  if (!kept || kept->step <= run.oldest_step()) throw error;
  const fs::path path = write_or_rescue(*kept, options.out, common);
  throw Error(error.code(), std::string(error.what()) + " Step " + std::to_string(kept->step) + " is saved; " +
                                way_on(path) + (error.code() == ExitCode::no_gpu ? " --device cpu" : ""));
}

SavesOnTheWay::SavesOnTheWay(const TrainOptions& options, std::int64_t step, Output& output)
    : folder_(options.out), schedule_(options.saves, step), output_(output) {}

void SavesOnTheWay::after_step(const TrainingRun& run) {
  if (!schedule_.is_due(run.step())) return;
  try {
    Snapshot snapshot = run.snapshot();
    snapshot.file.metadata[on_the_way] = "true";
    const std::string name = snapshot_stem(snapshot.recipe, snapshot.step) + ".safetensors";
    written_.push_back(write_safetensors(folder_ / name, snapshot.file, Existing::keep));
  } catch (const Error& error) {
    output_.message("no snapshot of step " + std::to_string(run.step()) + ": " + error.what() + ". Training continues");
    return;
  }
  if (written_.size() <= 2) return;
  std::error_code ignored;
  fs::remove(written_.front(), ignored);
  written_.erase(written_.begin());
}

void SavesOnTheWay::remove(const TrainingRun& run) const {
  const std::string stem = snapshot_stem(run.recipe(), 0);
  const std::string_view beginning = std::string_view(stem).substr(0, stem.size() - 1);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(beginning) && name.ends_with(".safetensors") && is_on_the_way_of(run, entry.path()))
      fs::remove(entry.path(), ignored);
  }
}

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
    throw Error(ExitCode::non_finite, run.failure() + " Snapshot: " + results.snapshot.string());
  try {
    results.metrics =
        write_csv(options.out / ("metrics_" + stem + ".csv"), metrics_of(curves, run.trainer().measures()), existing);
    results.recipe = write_file_atomically(options.out / ("recipe_" + stem + ".json"),
                                           to_json(run.recipe()).dump(2) + "\n", existing);
    if (options.figures == "none" || interruption.is_urgent()) return results;
    results.figure_folder = make_figure_folder(options.out, stem, common.force);
    write_figures(analysed, options, common.force, interruption, results, output);
  } catch (const Error& error) {
    throw Error(error.code(), std::string(error.what()) + ". The snapshot is written: " + results.snapshot.string());
  } catch (const std::bad_alloc&) {
    throw Error(ExitCode::out_of_memory,
                "not enough memory for all results. The snapshot is written: " + results.snapshot.string());
  }
  return results;
}

}  // namespace afterglow
