// Loads the CUDA plugin, and before it those of its libraries that the system's loader does not find by itself.
#include <dlfcn.h>

#include "gpu/plugin/plugin.h"

namespace afterglow {
namespace fs = std::filesystem;
namespace {

/// The reason why the last call of the loader failed.
std::string loader_message() {
  const char* message = ::dlerror();
  return message != nullptr ? message : "no reason given";
}

/// The name of the missing library in "libcublas.so.13: cannot open shared object file: ..."; other failures name none.
std::string missing_library(const std::string& message) {
  const std::string name = message.substr(0, message.find(": "));
  const bool is_library = name.size() < message.size() && name.find(".so") != std::string::npos;
  return is_library && name.find('/') == std::string::npos ? name : "";
}

fs::path find_library(const std::string& name, const std::vector<fs::path>& folders) {
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    if (fs::exists(folder / name, ignored)) return folder / name;
  }
  return {};
}

/// Opens a library by its full path. Its missing dependencies are opened first from `folders`, recursively, since the
/// loader uses an open library for one of the same name. Null with the reason on failure.
void* open_with_libraries(const fs::path& file, const std::vector<fs::path>& folders, std::string& why_not) {
  std::string last;
  for (;;) {
    if (void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    why_not = loader_message();
    const std::string missing = missing_library(why_not);
    if (missing.empty()) {
      why_not = file.string() + " cannot be loaded: " + why_not;
      return nullptr;
    }
    const fs::path found = find_library(missing, folders);
    if (found.empty() || missing == last) {
      why_not = "the CUDA plugin needs " + missing +
                ", which was not found: install NVIDIA's CUDA libraries of that version (from NVIDIA, or pip install "
                "'afterglow[cuda]'), or name their folder in LD_LIBRARY_PATH";
      return nullptr;
    }
    if (open_with_libraries(found, folders, why_not) == nullptr) return nullptr;
    last = missing;
  }
}

std::string no_plugin(const std::vector<fs::path>& folders) {
  std::string list;
  for (const fs::path& folder : folders) list += (list.empty() ? "" : " or ") + folder.string();
  return std::string("this installation has no CUDA plugin (no ") + plugin_file + " in " + list +
         "); build it where the CUDA toolkit is, or name its folder in AFTERGLOW_PLUGIN_PATH";
}

FoundPlugin ask_plugin(void* handle, const fs::path& file, const std::string& build) {
  const auto its_build = reinterpret_cast<const char* (*)()>(::dlsym(handle, plugin_build_function));
  const auto functions = reinterpret_cast<const CudaPlugin* (*)()>(::dlsym(handle, plugin_function));
  if (its_build == nullptr || functions == nullptr) return {nullptr, file.string() + " is no plugin of Afterglow"};
  if (its_build() == build) return {functions(), ""};
  return {nullptr, "the CUDA plugin " + file.string() + " belongs to another build of Afterglow (" + its_build() +
                       ", this program is " + build + "); install both from one package"};
}

}  // namespace

FoundPlugin load_plugin(const PluginPlaces& places, const std::string& build) {
  if (::dlopen(places.driver.c_str(), RTLD_LAZY | RTLD_LOCAL) == nullptr)
    return {nullptr, "no NVIDIA driver is installed here (no " + places.driver + ")"};
  const fs::path file = find_library(plugin_file, places.plugin);
  if (file.empty()) return {nullptr, no_plugin(places.plugin)};
  std::string why_not;
  void* handle = open_with_libraries(file, places.libraries, why_not);
  if (handle == nullptr) return {nullptr, why_not};
  return ask_plugin(handle, file, build);
}

}  // namespace afterglow
