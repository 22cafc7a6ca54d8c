// The one file that knows where the repository and its build lie; CMake defines both for it.
#include "tests/support/folders.h"

namespace afterglow {

namespace fs = std::filesystem;

const fs::path& source_folder() {
  static const fs::path folder = AFTERGLOW_SOURCE_DIR;
  return folder;
}

const fs::path& golden_folder() {
  static const fs::path folder = source_folder() / "tests" / "golden";
  return folder;
}

const fs::path& build_folder() {
  static const fs::path folder = AFTERGLOW_BINARY_DIR;
  return folder;
}

const fs::path& program_file() {
  static const fs::path file = build_folder() / "bin" / "afterglow";
  return file;
}

}  // namespace afterglow
