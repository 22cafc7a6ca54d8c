// Runs that were open when a window closed: snapshots in a folder of their own, of which the oldest are deleted.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/engine/training/saved/snapshot.h"

namespace afterglow {

struct KeptRun {
  std::filesystem::path path;
  std::string label;  ///< "tiny, step 600"
};

/// The window's folder for them: next to its settings with --portable, else in the user's data folder.
std::filesystem::path kept_runs_folder(bool is_portable);

/// The files, newest first; empty if the folder is missing or unreadable.
std::vector<KeptRun> kept_runs(const std::filesystem::path& folder);

/// Writes a snapshot, deletes earlier moments of the same run, and deletes the oldest files beyond five or 2 GiB, but
/// never the new one. Throws the Error of a file that cannot be written.
KeptRun keep_run(const std::filesystem::path& folder, const Snapshot& snapshot);

}  // namespace afterglow
