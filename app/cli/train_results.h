// What a training leaves in its folder: snapshot first, as it alone can be gone on from, then curves, recipe, figures.
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
  std::size_t figures = 0;         ///< in `files`, each in several formats
  std::vector<std::string> files;  ///< of the figures
};

/// Writes a snapshot. Where the folder cannot take it, another one does and the Error that is thrown names it: hours of
/// training are not lost to a full disk.
std::filesystem::path write_or_rescue(const Snapshot& snapshot, const std::filesystem::path& folder,
                                      const CommonOptions& common);

/// The end of a training by `error`: writes the state that was kept last, and throws `error` with the way on.
[[noreturn]] void keep_what_is_left(const TrainingRun& run, const TrainOptions& options, const CommonOptions& common,
                                    const Error& error);

/// Snapshots of a training on its way, the last two: what a kill or a power cut leaves to go on from. They are marked
/// in their metadata, so that the end of the training also removes what killed processes left of it.
class SavesOnTheWay {
 public:
  SavesOnTheWay(const TrainOptions& options, std::int64_t step, Output& output);
  /// Writes one where it is due. Where that fails, a message says so and the training goes on.
  void after_step(const TrainingRun& run);
  /// Removes those that the run has come through: its end's snapshot has been written.
  void remove(const TrainingRun& run) const;

 private:
  std::filesystem::path folder_;
  SaveSchedule schedule_;
  Output& output_;
  std::vector<std::filesystem::path> written_;  ///< the older one first
};

/// Writes the step that the run is at and the curves of the whole training. When the system wishes an end, figures are
/// left out: they can be made of the snapshot.
TrainResults write_results(AnalysedRun& analysed, const RunCurves& curves, const TrainOptions& options,
                           const CommonOptions& common, const Interruption& interruption, Output& output);

}  // namespace afterglow
