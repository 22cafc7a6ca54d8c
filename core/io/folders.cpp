// The XDG base directory rules, and the documents folder as the desktop's user-dirs.dirs has it.
#include "core/io/folders.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <system_error>

#include "core/io/atomic_file.h"
#include "core/io/error.h"
#include "core/io/terminal_text.h"

namespace afterglow {
namespace fs = std::filesystem;
namespace {

fs::path home_folder(const Environment& environment) {
  if (const auto home = environment("HOME"); home && fs::path(*home).is_absolute()) return *home;
  const passwd* entry = ::getpwuid(::getuid());
  return entry && entry->pw_dir ? entry->pw_dir : "/";
}

fs::path base_folder(const Environment& environment, const std::string& variable, const fs::path& fallback) {
  const auto value = environment(variable);
  return value && fs::path(*value).is_absolute() ? fs::path(*value) : fallback;
}

/// Desktops name the documents folder in their own language: XDG_DOCUMENTS_DIR="$HOME/Dokumente".
fs::path documents_folder(const fs::path& config, const fs::path& home) {
  std::string text;
  try {
    text = read_file(config / "user-dirs.dirs", 65536);
  } catch (const Error&) {
    return home / "Documents";  // systems without a desktop rarely have that file
  }
  std::istringstream lines(text);
  const std::string head = "XDG_DOCUMENTS_DIR=\"";
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(head) || !line.ends_with('"') || line.size() <= head.size()) continue;
    std::string value = line.substr(head.size(), line.size() - head.size() - 1);
    if (value.starts_with("$HOME/")) value = (home / value.substr(6)).string();
    if (fs::path(value).is_absolute()) return value;
  }
  return home / "Documents";
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

Folders user_folders(const Environment& environment) {
  const fs::path home = home_folder(environment);
  const fs::path config = base_folder(environment, "XDG_CONFIG_HOME", home / ".config");
  Folders folders;
  folders.config = config / "afterglow";
  folders.data = base_folder(environment, "XDG_DATA_HOME", home / ".local/share") / "afterglow";
  folders.state = base_folder(environment, "XDG_STATE_HOME", home / ".local/state") / "afterglow";
  folders.cache = base_folder(environment, "XDG_CACHE_HOME", home / ".cache") / "afterglow";
  folders.documents = documents_folder(config, home) / "Afterglow";
  return folders;
}

fs::path program_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::current_path(error) : program.parent_path();
}

fs::path settings_folder(bool is_portable, const fs::path& program) {
  std::error_code ignored;
  if (is_portable || fs::exists(program / "portable", ignored)) return program / "afterglow-settings";
  return user_folders().config;
}

fs::path data_folder(bool is_portable) {
  const fs::path settings = settings_folder(is_portable);
  return settings == user_folders().config ? user_folders().data : settings;
}

std::vector<fs::path> plugin_folders(const fs::path& program) {
  return {program, program.parent_path() / "lib/afterglow"};
}

std::vector<fs::path> asset_folders(const fs::path& program) {
  return {program / "share/afterglow", program.parent_path() / "share/afterglow"};
}

std::string file_name_of(std::string text, std::size_t most) {
  if (!is_utf8(text)) text.clear();
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '/' || c == 0x7F; }, '_');
  text.erase(0, text.find_first_not_of('.'));
  if (text.size() > most) {
    text.resize(most);
    while (!is_utf8(text)) text.pop_back();
  }
  return text;
}

std::vector<std::string> paths_beginning_with(const std::string& beginning) {
  constexpr std::size_t most = 200;
  const std::size_t end = beginning.rfind('/') + 1;  // 0 without a folder
  const std::string folder = beginning.substr(0, end), start = beginning.substr(end);
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator entry(end > 0 ? folder : ".", error), last; !error && entry != last;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(start) || (start.empty() && name.starts_with('.'))) continue;
    std::error_code ignored;
    paths.push_back(folder + name + (entry->is_directory(ignored) ? "/" : ""));
  }
  std::ranges::sort(paths);
  paths.resize(std::min(paths.size(), most));
  return paths;
}

void ensure_folder(const fs::path& folder) {
  fs::path so_far;
  for (const fs::path& part : folder) {
    so_far /= part;
    std::error_code ignored;
    if (fs::is_directory(so_far, ignored)) continue;
    if (::mkdir(so_far.c_str(), 0700) == 0 || errno == EEXIST) continue;
    throw BadInput("cannot create the folder ", so_far.string(), ": ", std::generic_category().message(errno),
                   "; nothing is kept there until it can be (the program runs on)");
  }
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    throw BadInput(folder.string(), " is a file where a folder should be; move it away (the program runs on)");
}

}  // namespace afterglow
