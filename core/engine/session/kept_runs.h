// The runs that were open when a window was closed: snapshots in a folder of their own, of which the oldest go.
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

/// Where a window keeps them: next to its settings with --portable, else in the user's folder for data.
std::filesystem::path kept_runs_folder(bool is_portable);

/// What is there, the newest first. A folder that is missing or cannot be read holds none.
std::vector<KeptRun> kept_runs(const std::filesystem::path& folder);

/// Writes a snapshot there and removes earlier moments of the same run, and the oldest beyond five files or 2 GiB; the
/// new one always stays. Throws the Error of a file that cannot be written.
KeptRun keep_run(const std::filesystem::path& folder, const Snapshot& snapshot);

}  // namespace afterglow
