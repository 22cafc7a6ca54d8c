// The results of a training: first the snapshot, the only file from which training can continue, then curves, recipe
// and figures.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "app/cli/command_line.h"
#include "app/cli/interruption.h"
#include "core/engine/session/analysed_run.h"

namespace afterglow {

struct TrainResults {
  std::filesystem::path snapshot, metrics, recipe, figure_folder;
  std::size_t figures = 0;         ///< their number in `files`, each in several formats
  std::vector<std::string> files;  ///< files of the figures
};

/// Writes a snapshot. If the folder cannot take it, writes it to another one and throws an Error that names it, so that
/// a full disk does not lose hours of training.
std::filesystem::path write_or_rescue(const Snapshot& snapshot, const std::filesystem::path& folder,
                                      const CommonOptions& common);

/// The end of a training by `error`: writes the state that was saved last, and throws `error` with the command that
/// continues it.
[[noreturn]] void keep_what_is_left(const TrainingRun& run, const TrainOptions& options, const CommonOptions& common,
                                    const Error& error);

/// The last two snapshots of a running training, from which it can continue after a kill or a power cut. Their metadata
/// mark them, so that the end of the training also removes those of killed processes.
class SavesOnTheWay {
 public:
  SavesOnTheWay(const TrainOptions& options, std::int64_t step, Output& output);
  /// Writes one if it is due. If that fails, prints a message, and the training continues.
  void after_step(const TrainingRun& run);
  /// Removes the snapshots of the running training, after the final one has been written.
  void remove(const TrainingRun& run) const;

 private:
  std::filesystem::path folder_;
  SaveSchedule schedule_;
  Output& output_;
  std::vector<std::filesystem::path> written_;  ///< the older one first
};

/// Writes the present step and the curves of the whole training. After a request of the system to end, figures are left
/// out: they can be made from the snapshot.
TrainResults write_results(AnalysedRun& analysed, const RunCurves& curves, const TrainOptions& options,
                           const CommonOptions& common, const Interruption& interruption, Output& output);

}  // namespace afterglow
