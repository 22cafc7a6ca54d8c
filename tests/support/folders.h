// Where tests find the sources and what was built. Paths are known to folders.cpp alone: every other test compiles to
// the same bytes wherever the repository is, so that a compiler cache serves each checkout.
#pragma once
#include <filesystem>

namespace afterglow {

/// The repository's root.
const std::filesystem::path& source_folder();

/// The golden files of layers and cores, in source_folder().
const std::filesystem::path& golden_folder();

/// The root of the build, which tests may write to.
const std::filesystem::path& build_folder();

/// The program that was built.
const std::filesystem::path& program_file();

}  // namespace afterglow
