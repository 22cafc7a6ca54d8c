// Output of a command: data on stdout, messages and progress on stderr, one JSON object with --json.
#pragma once
#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/io/error.h"

namespace afterglow {

class Output {
 public:
  bool json = false, quiet = false;
  std::vector<std::string> notes;  ///< messages of note(), which --json repeats

  /// A line of data for people, of parts as `concat` takes them; silent with --json. Control characters of the terminal
  /// are escaped.
  template <class... Parts>
  void line(const Parts&... parts) const {
    if (!json) write_line(concat(parts...));
  }
  /// The same by a format of printf.
  [[gnu::format(printf, 2, 3)]] void print(const char* format, ...) const;
  /// Prints the path of a file that has been written, and returns it.
  std::string wrote(const std::filesystem::path& file) const;
  /// A message, printed on stderr.
  template <class... Parts>
  void message(const Parts&... parts) const {
    if (!quiet) write_message(concat(parts...));
  }
  /// A message that belongs to the result, for example about something guessed or left out; once, however often it is
  /// said.
  template <class... Parts>
  void note(const Parts&... parts) {
    const std::string text = concat(parts...);
    if (std::ranges::find(notes, text) == notes.end()) message(notes.emplace_back(text));
  }
  /// A progress bar with the remaining time, redrawn in place; only on a terminal, and not with --quiet. Calls
  /// `text()`, the words after the bar, only when it draws.
  void progress(const std::string& name, double share, const std::function<std::string()>& text);
  void end_progress();

 private:
  static void write_line(const std::string& text);
  static void write_message(const std::string& text);
  bool drawn_ = false, has_begun_ = false;
  double last_drawn_ = 0;                     // seconds
  double begun_at_ = 0, share_at_begin_ = 0;  // start of the present bar
};

/// Reports a failure once, as JSON on stdout or as a sentence on stderr, and returns its exit code; also works when no
/// memory is left.
int say_failure(const Output& output, ExitCode code, const char* message) noexcept;

/// Throws Error(failure) if the data for stdout could not be written.
void require_output_arrived();

}  // namespace afterglow
