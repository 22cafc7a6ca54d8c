// The only exception of the project: what happened, where, and what to do, with the exit code of the command line.
#pragma once
#include <stdexcept>
#include <string>

namespace afterglow {

/// Exit codes of the command line; kept stable, printed by `--help`.
enum class ExitCode : int {
  done = 0,
  failure = 1,
  usage = 2,
  bad_input = 3,      ///< an input file is missing, unreadable or damaged
  no_gpu = 4,         ///< no usable GPU or driver
  out_of_memory = 5,  ///< of the GPU or of the host
  non_finite = 6,     ///< numbers became non-finite, or a solver did not converge
  check_failed = 7,   ///< an expectation, checksum or comparison failed
  interrupted = 130,
};

/// An error on which the user can act. `what()` is the whole sentence: what, where, what to do.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

}  // namespace afterglow
