// Reads the sources from the folder that the build was configured for.
#include "tests/core/architecture/sources.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/folders.h"

namespace afterglow {

namespace {

namespace fs = std::filesystem;

bool is_checked(const fs::path& path) {
  for (const char* ending : {".h", ".cpp", ".cu", ".cuh", ".in"}) {
    if (path.extension() == ending) return true;
  }
  return path.filename() == "CMakeLists.txt";
}

}  // namespace

std::vector<Source> all_sources() {
  const fs::path& root = source_folder();
  std::vector<Source> sources;
  for (const char* top : {"app", "core", "gpu", "views", "tests"}) {
    if (!fs::is_directory(root / top)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      if (!entry.is_regular_file() || !is_checked(entry.path())) continue;
      std::ifstream stream(entry.path(), std::ios::binary);
      sources.push_back({fs::relative(entry.path(), root).generic_string(),
                         std::string(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>())});
    }
  }
  return sources;
}

}  // namespace afterglow
