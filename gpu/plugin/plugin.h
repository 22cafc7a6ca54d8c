// Interface between the program and the CUDA plugin (libafterglow-cuda.so). Both are built from the same sources and
// exchange C++ objects, so the program refuses a plugin of another build.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "gpu/cuda.h"

namespace afterglow {

/// The functions of gpu/cuda.h in the plugin.
struct CudaPlugin {
  decltype(&cuda_devices) devices;
  decltype(&make_cuda_backend) make_backend;
  decltype(&cuda_device_memory) device_memory;
  decltype(&cuda_symmetric_eigen) symmetric_eigen;
  decltype(&cuda_general_eigenvalues) general_eigenvalues;
};

inline constexpr const char* plugin_file = "libafterglow-cuda.so";

/// A plugin exports two C functions: `const char* afterglow_plugin_build()`, which keeps this form in every version,
/// and, valid only if that returns the program's own build, `const CudaPlugin* afterglow_plugin()`.
inline constexpr const char* plugin_build_function = "afterglow_plugin_build";
inline constexpr const char* plugin_function = "afterglow_plugin";

struct PluginPlaces {
  std::vector<std::filesystem::path> plugin;     ///< folders; the first that contains the plugin counts
  std::vector<std::filesystem::path> libraries;  ///< folders for libraries that the system's loader does not find
  std::string driver = "libcuda.so.1";           ///< without the driver no NVIDIA library is loaded
};

struct FoundPlugin {
  const CudaPlugin* functions = nullptr;  ///< valid as long as the process runs
  std::string why_none;                   ///< a sentence when `functions` is null
};

/// Loads the plugin; `build` is the build it must report. Never throws.
FoundPlugin load_plugin(const PluginPlaces& places, const std::string& build);

}  // namespace afterglow
