// Wishes to end while something long is running: Ctrl C, and what a system sends before it takes a program away. The
// first lets the present piece of work finish and be saved; a second Ctrl C ends at once.
#pragma once
#include <string>

namespace afterglow {

/// Notes such wishes as long as it lives. A signal that was ignored when the program began (`nohup`) stays so. There is
/// one at a time.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  static bool wanted();
  /// Whether the system wishes it, which waits for seconds only.
  static bool is_urgent();
  /// Throws Error(interrupted) when an end is wished; `where` completes the sentence.
  static void check(const std::string& where);
};

}  // namespace afterglow
