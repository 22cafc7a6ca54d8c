// Where Afterglow keeps its own files: the XDG folders of Linux desktops, and nothing anywhere else.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace afterglow {

struct Folders {
  std::filesystem::path config;     ///< settings, keys, layouts, theme
  std::filesystem::path data;       ///< the person's own lessons, and the runs that a closed window kept
  std::filesystem::path state;      ///< nothing yet
  std::filesystem::path cache;      ///< safe to delete
  std::filesystem::path documents;  ///< exports of a window that was not started from a terminal
};

/// The value of an environment variable, or nothing if it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
/// The variables of this process.
Environment process_environment();

/// By the XDG base directory rules: unset, empty and relative variables do not count. Creates nothing.
Folders user_folders(const Environment& environment = process_environment());

/// The folder of the running program.
std::filesystem::path program_folder();

/// Where the settings are kept: in `afterglow-settings` beside the program if that is asked for or a file `portable`
/// lies there, otherwise in the user's folder for configuration.
std::filesystem::path settings_folder(bool is_portable, const std::filesystem::path& program = program_folder());

/// Where the files may lie that come with the program, in the order in which they are looked for: share/afterglow below
/// its folder and beside it. Nothing is read from the source tree: presets are compiled in.
std::vector<std::filesystem::path> asset_folders(const std::filesystem::path& program = program_folder());

/// Where the libraries may lie that the program loads when it needs them: beside it, and in ../lib/afterglow from
/// there.
std::vector<std::filesystem::path> plugin_folders(const std::filesystem::path& program = program_folder());

/// Creates a folder and its parents, for the owner only. Error(bad_input) says why it cannot be, and that the program
/// runs on without.
void ensure_folder(const std::filesystem::path& folder);

}  // namespace afterglow
