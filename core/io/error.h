// The exceptions of the project: what happened, where, and what to do, with the exit code of the command line.
#pragma once
#include <stdexcept>
#include <string>
#include <type_traits>

namespace afterglow {

/// Texts, letters and whole numbers, one after the other.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string text;
  const auto add = [&text](const auto& part) {
    using Part = std::remove_cvref_t<decltype(part)>;
    static_assert(!std::is_floating_point_v<Part> && !std::is_same_v<Part, bool>, "its digits are the caller's choice");
    if constexpr (std::is_integral_v<Part> && !std::is_same_v<Part, char>) {
      text += std::to_string(part);
    } else {
      text += part;
    }
  };
  (add(parts), ...);
  return text;
}

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

/// An error on which the user can act. `what()` is the whole sentence, of parts as `concat` takes them: what, where,
/// what to do.
class Error : public std::runtime_error {
 public:
  template <class... Parts>
  Error(ExitCode code, const Parts&... parts) : std::runtime_error(concat(parts...)), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// An Error(bad_input) of these parts.
struct BadInput : Error {
  template <class... Parts>
  explicit BadInput(const Parts&... parts) : Error(ExitCode::bad_input, parts...) {}
};

/// An Error(usage) of these parts.
struct UsageError : Error {
  template <class... Parts>
  explicit UsageError(const Parts&... parts) : Error(ExitCode::usage, parts...) {}
};

}  // namespace afterglow
