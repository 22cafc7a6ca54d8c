// Runs the program as a person would: arguments in, exit code and both streams out.
#pragma once
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/folders.h"

namespace afterglow {

struct ProgramResult {
  int code = -1;
  std::string out, err;
};

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A fresh folder for one test, removed at the end.
class ScratchFolder {
 public:
  explicit ScratchFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / ("afterglow_" + name)) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// A line of a shell in a folder, with $AFTERGLOW as the program; what the line does not send elsewhere comes back.
inline ProgramResult run_line(const std::string& line, const std::filesystem::path& folder) {
  const std::string out = (folder / ".stdout").string(), err = (folder / ".stderr").string();
  const std::string command = "cd '" + folder.string() + "' && AFTERGLOW='" + program_file().string() + "' && { " +
                              line + "; } >'" + out + "' 2>'" + err + "' </dev/null";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text_of(out), text_of(err)};
}

/// `before` is put in front of the command: environment, limits, pipes into it.
inline ProgramResult run_program(const std::string& arguments, const std::filesystem::path& folder,
                                 const std::string& before = "") {
  return run_line(before + " \"$AFTERGLOW\" " + arguments, folder);
}

}  // namespace afterglow
