// Shared by `table` and `sweep`: runs of recipes in one folder, distributed over cores, processes and machines.
#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "app/cli/command_line.h"
#include "core/engine/sweeps/recipe_run.h"
#include "core/figure/figure.h"

namespace afterglow {

class StudyRun {
 public:
  /// Throws Error(usage) for an impossible shard and if no run is left. `name` precedes the progress.
  StudyRun(std::string name, Inquiry inquiry, std::vector<PlannedRun> runs, const StudyOptions& options,
           const CommonOptions& common, Output& output);

  /// With --list: prints one command for each run instead of training; returns true then.
  bool list() const;
  /// Trains the missing runs of this shard. Throws Error(bad_input) for a folder with other contents, which could be
  /// lost, and Error(interrupted).
  void train(const std::filesystem::path& folder);
  /// The results of all shards so far, in the order of the runs.
  std::vector<RunResult> results() const;
  /// Writes files of all results, and again if other processes have finished runs in the meantime: the last process to
  /// end leaves the files of all runs.
  nlohmann::json write_files(
      const std::function<std::vector<std::filesystem::path>(const std::vector<RunResult>& results)>& write) const;
  const std::string& device() const { return device_; }

 private:
  void require_own_folder() const;
  std::ptrdiff_t written_results() const;
  std::vector<PlannedRun> shard() const;
  std::string name_;
  Inquiry inquiry_;
  std::vector<PlannedRun> runs_, wanted_;  // all runs, and those that --only names
  const StudyOptions& options_;
  const CommonOptions& common_;
  Output& output_;
  std::size_t shard_ = 1, shards_ = 1;
  std::unique_ptr<ResultFolder> folder_;
  std::string device_;
};

/// Writes figures in every format into the study's folder; adds their paths to `written`.
void write_study_figures(const std::vector<Figure>& figures, const std::filesystem::path& folder,
                         std::vector<std::filesystem::path>& written);

}  // namespace afterglow
