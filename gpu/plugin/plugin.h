// What the CUDA plugin (libafterglow-cuda.so) and the program agree on. Both are made from the same sources: objects of
// C++ pass between them, so a plugin of another build is refused before anything else is asked of it.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "gpu/cuda.h"

namespace afterglow {

/// The functions of gpu/cuda.h, as the plugin has them.
struct CudaPlugin {
  decltype(&cuda_devices) devices;
  decltype(&make_cuda_backend) make_backend;
  decltype(&cuda_device_memory) device_memory;
  decltype(&cuda_symmetric_eigen) symmetric_eigen;
  decltype(&cuda_general_eigenvalues) general_eigenvalues;
};

inline constexpr const char* plugin_file = "libafterglow-cuda.so";

/// Two C functions are all that a plugin exports: `const char* afterglow_plugin_build()`, which keeps this form in
/// every version to come, and where that answers what the program was built with, `const CudaPlugin*
/// afterglow_plugin()`.
inline constexpr const char* plugin_build_function = "afterglow_plugin_build";
inline constexpr const char* plugin_function = "afterglow_plugin";

/// Where the plugin and what it needs may lie.
struct PluginPlaces {
  std::vector<std::filesystem::path> plugin;     ///< folders, of which the first that holds the plugin counts
  std::vector<std::filesystem::path> libraries;  ///< folders for what the system's loader does not find
  std::string driver = "libcuda.so.1";           ///< without which nothing of NVIDIA's is touched
};

struct FoundPlugin {
  const CudaPlugin* functions = nullptr;  ///< for as long as the process runs
  std::string why_none;                   ///< a sentence when there are none
};

/// Loads the plugin; `build` is what it must answer. Never throws.
FoundPlugin load_plugin(const PluginPlaces& places, const std::string& build);

}  // namespace afterglow
