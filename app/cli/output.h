// What a command says: data on stdout, messages and progress on stderr, one JSON object with --json.
#pragma once
#include <functional>
#include <string>

namespace afterglow {

class Output {
 public:
  bool json = false, quiet = false;

  /// A line of data for people; silent with --json.
  void line(const std::string& text) const;
  /// A message beside the data.
  void message(const std::string& text) const;
  /// A progress bar, redrawn in place; only on a terminal, and not with --quiet. `text()` is asked for what stands
  /// behind the bar, and only when the bar is drawn.
  void progress(const std::string& name, double share, const std::function<std::string()>& text);
  void end_progress();

 private:
  bool drawn_ = false;
  double last_drawn_ = 0;  // seconds
};

}  // namespace afterglow
