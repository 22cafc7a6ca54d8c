// Requests to end during long work: Ctrl C, and the signals with which a system ends a program. The first request lets
// the present piece of work finish and be saved; a second Ctrl C ends at once.
#pragma once
#include <string>

namespace afterglow {

/// Notes such requests during its lifetime. A signal that was ignored when the program began (`nohup`) stays ignored.
/// At most one object exists at a time.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  static bool wanted();
  /// Whether the system, which waits only for seconds, has requested the end.
  static bool is_urgent();
  /// Throws Error(interrupted) after a request to end; `where` completes the sentence.
  static void check(const std::string& where);
};

}  // namespace afterglow
