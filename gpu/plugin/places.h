// Where the CUDA plugin and NVIDIA's libraries are installed.
#pragma once
#include "core/io/folders.h"
#include "gpu/plugin/plugin.h"

namespace afterglow {

/// The plugin is in the folder of the program or in ../lib/afterglow from there; AFTERGLOW_PLUGIN_PATH names other
/// folders, which then replace these. Libraries lie where pip, conda or NVIDIA's installer put them: in the Python
/// environment of the program, in the active one, in those whose programs are on the PATH, in the user's own, and in
/// the toolkit's folder.
PluginPlaces plugin_places(const Environment& environment = process_environment(),
                           const std::filesystem::path& program = program_folder());

}  // namespace afterglow
