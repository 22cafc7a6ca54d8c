// Where the CUDA plugin and NVIDIA's libraries lie on a machine.
#pragma once
#include "core/io/folders.h"
#include "gpu/plugin/plugin.h"

namespace afterglow {

/// The plugin lies beside the program or in ../lib/afterglow from there; AFTERGLOW_PLUGIN_PATH names other folders,
/// which then are the only ones. Libraries lie where pip, conda or NVIDIA's installer put them: in the Python
/// environment that the program belongs to, in the one that is switched on, in those whose programs are on the PATH, in
/// the person's own, and in the toolkit's folder.
PluginPlaces plugin_places(const Environment& environment = process_environment(),
                           const std::filesystem::path& program = program_folder());

}  // namespace afterglow
