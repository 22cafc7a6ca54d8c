// Requests to end during long work: Ctrl C, and the signals with which a system ends a program. The first request lets
// the present piece of work finish and be saved; a second Ctrl C ends at once. And the last
// handling of failures: standard streams that were closed before the program began, and memory that ran out in places
// that cannot report it.
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

/// Keeps a newly opened file from getting the number of a closed standard stream; writing to the stream fails instead.
void occupy_standard_streams();

/// Sets memory aside that is freed when memory first runs out: destructors of JSON values allocate and cannot fail.
/// When no memory is left for unwinding, or unwinding fails, the program ends with the exit code and a sentence instead
/// of a core dump. Call it before all other code, because static tables are built before `main`.
void end_orderly_without_memory();

/// Whether memory has run out once; then a training ends at its next step and keeps what it has.
bool memory_is_short();

}  // namespace afterglow
