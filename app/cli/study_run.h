// What `table` and `sweep` share: runs of recipes in a folder of their own, spread over cores, processes and machines.
#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "app/cli/command_line.h"
#include "core/engine/studies/recipe_run.h"
#include "core/figure/figure.h"

namespace afterglow {

class StudyRun {
 public:
  /// Throws Error(usage) for a shard that cannot be and where no run is wanted. `name` stands before the progress.
  StudyRun(std::string name, Inquiry inquiry, std::vector<PlannedRun> runs, const StudyOptions& options,
           const CommonOptions& common, Output& output);

  /// With --list: prints one command for each run instead of training; true where it did.
  bool list() const;
  /// Trains those of this shard that are missing. Throws Error(bad_input) for a folder that holds other things, which
  /// could be lost, and Error(interrupted).
  void train(const std::filesystem::path& folder);
  /// Of all shards, in the order of the runs, as far as they are there.
  std::vector<RunResult> results() const;
  /// Writes files of all results, and writes them again where other processes have finished runs meanwhile: the last
  /// one that ends leaves the files of all.
  nlohmann::json write_files(
      const std::function<std::vector<std::filesystem::path>(const std::vector<RunResult>& results)>& write) const;
  const std::string& device() const { return device_; }

 private:
  void require_own_folder() const;
  std::ptrdiff_t written_results() const;
  std::vector<PlannedRun> shard() const;
  std::string name_;
  Inquiry inquiry_;
  std::vector<PlannedRun> runs_, wanted_;  // all, and those that --only names
  const StudyOptions& options_;
  const CommonOptions& common_;
  Output& output_;
  std::size_t shard_ = 1, shards_ = 1;
  std::unique_ptr<ResultFolder> folder_;
  std::string device_;
};

/// Writes figures in every format into the study's folder; `written` gets their files.
void write_study_figures(const std::vector<Figure>& figures, const std::filesystem::path& folder,
                         std::vector<std::filesystem::path>& written);

}  // namespace afterglow
