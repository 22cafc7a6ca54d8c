// A virtual display with the program in it, driven by keys and mouse as a person would.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace afterglow {

/// Starts Xvfb on a free display. `is_there()` is false where Xvfb or xdotool are missing.
class VirtualDisplay {
 public:
  VirtualDisplay();
  ~VirtualDisplay();
  VirtualDisplay(const VirtualDisplay&) = delete;
  VirtualDisplay& operator=(const VirtualDisplay&) = delete;
  bool is_there() const { return !name_.empty(); }
  const std::string& name() const { return name_; }
  /// Runs xdotool on this display and returns what it says.
  std::string xdotool(const std::string& arguments) const;

 private:
  pid_t server_ = -1;
  std::string name_;
};

/// The program with a home folder of its own. Standard streams go to files in it.
class RunningProgram {
 public:
  RunningProgram(const VirtualDisplay& display, const std::filesystem::path& home,
                 const std::vector<std::string>& command);
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;
  bool is_running();
  void send(int signal) const;
  /// Waits for the end, at most this long; -1 when it does not come.
  int exit_code(double seconds);

 private:
  pid_t process_ = -1;
  int status_ = 0;
};

/// Tries until it is true; false when `seconds` are over.
template <class Condition>
bool wait_until(double seconds, const Condition& condition);

void sleep_seconds(double seconds);

template <class Condition>
bool wait_until(double seconds, const Condition& condition) {
  for (double waited = 0; waited < seconds; waited += 0.05) {
    if (condition()) return true;
    sleep_seconds(0.05);
  }
  return condition();
}

}  // namespace afterglow
