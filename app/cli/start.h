// Turns --preset, --recipe, --resume, --set, --seed and --steps into the moment a command starts from.
#pragma once
#include "app/cli/command_line.h"
#include "core/engine/training/saved_run.h"

namespace afterglow {

/// `fallback` is the preset when nothing is named.
SavedRun starting_run(const StartOptions& options, const CommonOptions& common, const std::string& fallback);

/// `path`, or the first free name after it unless --force was given.
std::filesystem::path output_path(const std::filesystem::path& path, bool force);

}  // namespace afterglow
