// Where Afterglow keeps its own files: the XDG folders of Linux desktops, and nothing anywhere else.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace afterglow {

struct Folders {
  std::filesystem::path config;     ///< settings, keys, layouts, theme
  std::filesystem::path data;       ///< the person's own lessons and presets
  std::filesystem::path state;      ///< autosave, recent files, logs, crash reports
  std::filesystem::path cache;      ///< safe to delete
  std::filesystem::path documents;  ///< exports of a window that was not started from a terminal
};

/// The value of an environment variable, or nothing if it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
/// The variables of this process.
Environment process_environment();

/// By the XDG base directory rules: unset, empty and relative variables do not count. Creates nothing.
Folders user_folders(const Environment& environment = process_environment());

/// Creates a folder and its parents, for the owner only. Error(bad_input) says why it cannot be, and that the program
/// runs on without.
void ensure_folder(const std::filesystem::path& folder);

}  // namespace afterglow
