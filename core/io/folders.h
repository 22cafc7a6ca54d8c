// The folders of Afterglow's own files: only the XDG folders of Linux desktops.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace afterglow {

struct Folders {
  std::filesystem::path config;     ///< settings, keys, layouts, theme
  std::filesystem::path data;       ///< the user's own lessons, and the runs that closed windows saved
  std::filesystem::path state;      ///< nothing yet
  std::filesystem::path cache;      ///< safe to delete
  std::filesystem::path documents;  ///< exports of a window that was not started from a terminal
};

/// The value of an environment variable, or nothing if it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
/// The variables of this process.
Environment process_environment();

/// By the XDG base directory rules, which ignore unset, empty and relative variables. Creates no folder.
Folders user_folders(const Environment& environment = process_environment());

/// The folder of the running program.
std::filesystem::path program_folder();

/// The folder of the settings: `afterglow-settings` next to the program if `is_portable` or a file `portable` is there,
/// otherwise the user's folder for configuration.
std::filesystem::path settings_folder(bool is_portable, const std::filesystem::path& program = program_folder());

/// The folder of what the program keeps for the user, by the same rule.
std::filesystem::path data_folder(bool is_portable);

/// Possible folders of the files that come with the program, in the order of the search: share/afterglow below its
/// folder and next to it. The program reads nothing from the source tree: presets are compiled in.
std::vector<std::filesystem::path> asset_folders(const std::filesystem::path& program = program_folder());

/// Possible folders of the plug-ins that the program loads when it needs them: its own, and ../lib/afterglow.
std::vector<std::filesystem::path> plugin_folders(const std::filesystem::path& program = program_folder());

/// The text as the name of a file in any folder, at most so many bytes: control characters and slashes become _, dots
/// at its start go. May be empty.
std::string file_name_of(std::string text, std::size_t most = 120);

/// Paths that begin so, in alphabetical order, at most 200; those of folders end with "/". Hidden ones where a dot was
/// typed.
std::vector<std::string> paths_beginning_with(const std::string& beginning);

/// Creates a folder and its parents, for the owner only. Error(bad_input) gives the reason for a failure and says that
/// the program runs without it.
void ensure_folder(const std::filesystem::path& folder);

}  // namespace afterglow
