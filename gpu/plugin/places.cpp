// Folders of this machine and of its Python environments, nearest first; only existing ones are searched.
#include "gpu/plugin/places.h"

#include <algorithm>
#include <sstream>

namespace afterglow {
namespace fs = std::filesystem;
namespace {

/// The absolute folders of a variable such as PATH.
std::vector<fs::path> folders_in(const std::optional<std::string>& value) {
  std::vector<fs::path> folders;
  std::istringstream parts(value.value_or(""));
  for (std::string part; std::getline(parts, part, ':');) {
    if (fs::path(part).is_absolute()) folders.push_back(fs::path(part).lexically_normal());
  }
  return folders;
}

/// The entries of a folder by name; empty when there is no folder.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    entries.push_back(entry->path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

/// The library folders of pip's `nvidia-*` packages: nvidia/cu13/lib, nvidia/cublas/lib and so on.
void add_packages(const fs::path& site, std::vector<fs::path>& folders) {
  for (const fs::path& package : entries_of(site / "nvidia")) folders.push_back(package / "lib");
}

/// Of a Python environment (sys.prefix): conda keeps libraries in lib, pip in packages below it.
void add_environment(const fs::path& prefix, std::vector<fs::path>& folders) {
  for (const fs::path& python : entries_of(prefix / "lib")) {
    if (!python.filename().string().starts_with("python3")) continue;
    add_packages(python / "site-packages", folders);
    add_packages(python / "dist-packages", folders);
  }
  folders.push_back(prefix / "lib");
}

}  // namespace

PluginPlaces plugin_places(const Environment& environment, const fs::path& program) {
  PluginPlaces places;
  places.plugin = folders_in(environment("AFTERGLOW_PLUGIN_PATH"));
  if (places.plugin.empty()) places.plugin = plugin_folders(program);

  std::vector<fs::path> found;
  add_packages(program.parent_path().parent_path(),
               found);  // a wheel's program is site-packages/afterglow/bin/afterglow
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    for (const fs::path& prefix : folders_in(environment(name))) add_environment(prefix, found);
  }
  for (const fs::path& programs : folders_in(environment("PATH"))) add_environment(programs.parent_path(), found);
  for (const fs::path& home : folders_in(environment("HOME"))) add_environment(home / ".local", found);
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    for (const fs::path& toolkit : folders_in(environment(name))) found.push_back(toolkit / "lib64");
  }
  found.emplace_back("/usr/local/cuda/lib64");
  for (const fs::path& folder : found) {
    std::error_code ignored;
    const bool is_new = std::find(places.libraries.begin(), places.libraries.end(), folder) == places.libraries.end();
    if (is_new && fs::is_directory(folder, ignored)) places.libraries.push_back(folder);
  }
  return places;
}

}  // namespace afterglow
