// One run of a table or a sweep. A run is a pure function of its recipe, so its result is stored in a file: a runner
// that finds it does not train.
#pragma once
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/observation/table_view.h"
#include "core/engine/training/saved/snapshot.h"
#include "core/recipe/recipe.h"

namespace afterglow {

class TrainingRun;

/// The value of a metric without an answer.
constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// When a run ends early: after this many held-out evaluations in a row with at least this accuracy.
struct Enough {
  double accuracy = std::numeric_limits<double>::infinity();
  int evaluations = 1;
};

/// The measurements of a run.
struct RunAnswer {
  std::vector<double> values;  ///< one for each metric; NaN without an answer ("never")
  RunSpectrum spectrum = {};
};

/// What is measured in every run.
struct Inquiry {
  std::string table;  ///< whose results they are; empty for a sweep
  std::vector<RunMetric> metrics;
  /// Called when the run has ended, for whatever reason.
  std::function<RunAnswer(TrainingRun& run)> measure;
  Enough enough = {};
};

struct PlannedRun {
  std::size_t row = 0;  ///< of its table or sweep
  Recipe recipe;
  std::string name;  ///< of its files: "gated_deltanet_8_seed7"
};

/// The recipe without fields that only affect what is analysed and how far it is trained.
Recipe training_of(Recipe recipe);

/// 16 hex digits of everything that determines a run's result. A data file enters by name and content, not by its
/// folder; title and sentence of the recipe do not count.
std::string hash_of(const Recipe& recipe, const Inquiry& inquiry);

/// A run in progress, step by step.
class RecipeRun {
 public:
  /// From its start, or from the snapshot of an interrupted process. The inquiry must outlive it.
  RecipeRun(const Inquiry& inquiry, PlannedRun planned, Backend& backend,
            const std::optional<Snapshot>& begun = std::nullopt);
  ~RecipeRun();
  /// Trains one step; false if the run has ended.
  bool train_step();
  std::int64_t step() const;
  /// Why it failed, as a sentence; empty otherwise.
  const std::string& failure() const;
  /// The loss of every step from this one on.
  std::vector<double> losses_from(std::int64_t step) const;
  /// Measured at the end of the run.
  RunResult result();
  Snapshot snapshot() const;

 private:
  bool is_good_enough() const;
  const Inquiry* inquiry_;
  PlannedRun planned_;
  std::unique_ptr<TrainingRun> run_;
};

/// A folder of results: for each run "NAME.json" with its recipe and numbers, a claim while it is being trained, and a
/// snapshot if its process was asked to stop.
class ResultFolder {
 public:
  ResultFolder(std::filesystem::path path, const Inquiry& inquiry) : path_(std::move(path)), inquiry_(&inquiry) {}

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path result_file(const PlannedRun& run) const { return path_ / (run.name + ".json"); }
  std::filesystem::path claim_file(const PlannedRun& run) const { return path_ / (run.name + ".claim"); }
  std::filesystem::path snapshot_file(const PlannedRun& run) const { return path_ / (run.name + ".safetensors"); }

  /// Nothing if the run is not finished there, or if the file is of another run: another recipe, other metrics.
  std::optional<RunResult> read(const PlannedRun& run) const;
  void write(const PlannedRun& run, const RunResult& result) const;
  /// The snapshot of an interrupted process; nothing if there is no usable one.
  std::optional<Snapshot> begun(const PlannedRun& run) const;
  void keep(const PlannedRun& run, const Snapshot& snapshot) const { write_snapshot(snapshot_file(run), snapshot); }
  /// Renames the files of a sweep's run from versions whose hash included the recipe's title and sentence.
  void adopt(const PlannedRun& run) const;
  /// Removes leftovers of a process that was killed just after writing its result.
  void tidy(const PlannedRun& run) const;
  /// Whether there is any file of the run.
  bool knows(const PlannedRun& run) const;
  /// Removes its result and its snapshot.
  void forget(const PlannedRun& run) const;

 private:
  std::filesystem::path path_;
  const Inquiry* inquiry_;
};

}  // namespace afterglow
