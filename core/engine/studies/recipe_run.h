// One run of a table or a sweep. A run is a pure function of its recipe, so its result is a file that is never made
// twice: a runner that finds it does not train.
#pragma once
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/observation/table_view.h"
#include "core/engine/recipe/recipe.h"
#include "core/engine/training/saved/snapshot.h"

namespace afterglow {

class TrainingRun;

/// What stands where there is no answer.
constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// Where a run ends before its time: so many held-out evaluations in a row have at least this accuracy.
struct Enough {
  double accuracy = std::numeric_limits<double>::infinity();
  int evaluations = 1;
};

/// What a run says when it is asked.
struct RunAnswer {
  std::vector<double> values;  ///< one for each metric; NaN where there is no answer ("never")
  RunSpectrum spectrum = {};
};

/// What is asked of every run.
struct Inquiry {
  std::string table;  ///< whose results they are; empty: a sweep's
  std::vector<RunMetric> metrics;
  /// Of a run that has ended, for whatever reason.
  std::function<RunAnswer(TrainingRun& run)> measure;
  Enough enough = {};
};

struct PlannedRun {
  std::size_t row = 0;  ///< of its table or sweep
  Recipe recipe;
  std::string name;  ///< of its files: "gated_deltanet_8_seed7"
};

/// The recipe without what only says how its run is looked at, and how far.
Recipe training_of(Recipe recipe);

/// 16 hex digits of all that a run's result depends on; two runs with the same are the same. A file of data counts by
/// its name and content, not by its folder; the recipe's title and sentence do not count.
std::string hash_of(const Recipe& recipe, const Inquiry& inquiry);

/// A run on its way, step by step.
class RecipeRun {
 public:
  /// From its start, or from where another process was ended. The inquiry must outlive it.
  RecipeRun(const Inquiry& inquiry, PlannedRun planned, Backend& backend,
            const std::optional<Snapshot>& begun = std::nullopt);
  ~RecipeRun();
  /// Trains one step; false when the run has ended.
  bool train_step();
  std::int64_t step() const;
  /// Why it ended before its time, for people; empty where all is well.
  const std::string& failure() const;
  /// The loss of every step from this one on.
  std::vector<double> losses_from(std::int64_t step) const;
  /// Measured where the run has ended.
  RunResult result();
  Snapshot snapshot() const;

 private:
  bool is_good_enough() const;
  const Inquiry* inquiry_;
  PlannedRun planned_;
  std::unique_ptr<TrainingRun> run_;
};

/// A folder of results: for each run "NAME.json" with its recipe and numbers, while it is trained a claim, and a
/// snapshot where its process was asked to end.
class ResultFolder {
 public:
  ResultFolder(std::filesystem::path path, const Inquiry& inquiry) : path_(std::move(path)), inquiry_(&inquiry) {}

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path result_file(const PlannedRun& run) const { return path_ / (run.name + ".json"); }
  std::filesystem::path claim_file(const PlannedRun& run) const { return path_ / (run.name + ".claim"); }
  std::filesystem::path snapshot_file(const PlannedRun& run) const { return path_ / (run.name + ".safetensors"); }

  /// Nothing where the run has not been finished there, or another one was: a different recipe, other metrics.
  std::optional<RunResult> read(const PlannedRun& run) const;
  void write(const PlannedRun& run, const RunResult& result) const;
  /// Where an ended process came with this run; nothing where there is no such snapshot, or none that can be used.
  std::optional<Snapshot> begun(const PlannedRun& run) const;
  void keep(const PlannedRun& run, const Snapshot& snapshot) const;
  /// Renames the files of a sweep's run that a version wrote whose hash counted the recipe's title and sentence.
  void adopt(const PlannedRun& run) const;
  /// Removes what a process that was killed just behind its result has left beside it.
  void tidy(const PlannedRun& run) const;
  /// Whether anything of the run is there.
  bool knows(const PlannedRun& run) const;
  /// Removes its result and its snapshot.
  void forget(const PlannedRun& run) const;

 private:
  std::filesystem::path path_;
  const Inquiry* inquiry_;
};

}  // namespace afterglow
