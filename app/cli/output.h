// What a command says: data on stdout, messages and progress on stderr, one JSON object with --json.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/io/error.h"

namespace afterglow {

class Output {
 public:
  bool json = false, quiet = false;
  std::vector<std::string> notes;  ///< what was said with note(), which --json repeats

  /// A line of data for people; silent with --json. What a terminal would obey is written out.
  void line(const std::string& text) const;
  /// A message beside the data.
  void message(const std::string& text) const;
  /// A message that belongs to the result, such as what was guessed or left out.
  void note(const std::string& text);
  /// A progress bar with the time that is left, redrawn in place; only on a terminal, and not with --quiet. `text()` is
  /// asked for what stands behind the bar, and only when the bar is drawn.
  void progress(const std::string& name, double share, const std::function<std::string()>& text);
  void end_progress();

 private:
  bool drawn_ = false, has_begun_ = false;
  double last_drawn_ = 0;                     // seconds
  double begun_at_ = 0, share_at_begin_ = 0;  // of the present bar
};

/// Says a failure once, as JSON on stdout or as a sentence on stderr, and returns its exit code; also where no memory
/// is left to say it with.
int say_failure(const Output& output, ExitCode code, const char* message) noexcept;

/// Throws Error(failure) where what was said on stdout did not arrive.
void require_output_arrived();

}  // namespace afterglow
