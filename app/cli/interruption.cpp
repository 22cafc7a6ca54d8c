// Signals that ask the program to end. Without memory only system calls and what exists from the start are used.
#include "app/cli/interruption.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>

#include "core/io/claim.h"
#include "core/io/error.h"

namespace afterglow {
namespace {

// Clusters send one of the last three some time before the end (Slurm, submitit, LSF, Grid Engine), and the others
// several times; only a person's second Ctrl C ends at once.
constexpr std::array signals{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU};

volatile std::sig_atomic_t wishes_of_user = 0, wishes_of_system = 0;
std::array<struct sigaction, signals.size()> before;

void on_signal(int signal) {
  if (signal != SIGINT) {
    wishes_of_system = 1;
    return;
  }
  wishes_of_user = wishes_of_user + 1;
  if (wishes_of_user > 1) std::_Exit(static_cast<int>(ExitCode::interrupted));
  constexpr std::string_view text =
      "\nafterglow: stopping after the present piece of work; press Ctrl C again to stop at once\n";
  if (::isatty(STDERR_FILENO) == 0) return;
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

constexpr std::size_t reserve_bytes = 1 << 20;
std::atomic<void*> reserve = nullptr;  // freed when memory first runs out
std::atomic<bool> memory_ran_out = false;

[[noreturn]] void end_without_memory() {
  constexpr std::string_view text = "afterglow: not enough memory; choose a smaller model, batch or length\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  Claim::remove_all();
  std::_Exit(static_cast<int>(ExitCode::out_of_memory));
}

void on_missing_memory() {
  memory_ran_out = true;
  void* const memory = reserve.exchange(nullptr);
  if (memory == nullptr) throw std::bad_alloc();
  std::free(memory);  // the caller tries again
}

bool is_about_memory(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    return true;
  } catch (...) {
    return false;
  }
  return memory_ran_out;
}

[[noreturn]] void on_terminate() {
  if (is_about_memory(std::current_exception())) end_without_memory();
  std::abort();
}

/// Eigen frees a matrix twice when the memory for its new size is missing, and the C library then aborts during the
/// unwinding.
void on_abort(int) {
  if (memory_ran_out || std::uncaught_exceptions() > 0) end_without_memory();
  std::signal(SIGABRT, SIG_DFL);
}

}  // namespace

Interruption::Interruption() {
  wishes_of_user = 0;
  wishes_of_system = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < signals.size(); ++i) {
    ::sigaction(signals[i], nullptr, &before[i]);
    if (before[i].sa_handler != SIG_IGN) ::sigaction(signals[i], &action, nullptr);
  }
}

Interruption::~Interruption() {
  for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &before[i], nullptr);
}

bool Interruption::wanted() { return wishes_of_user > 0 || is_urgent(); }

bool Interruption::is_urgent() { return wishes_of_system > 0; }

void Interruption::check(const std::string& where) {
  if (wanted()) throw Error(ExitCode::interrupted, "interrupted ", where);
}

void occupy_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // Opened for the other direction, so that reading and writing still fail.
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    [[maybe_unused]] const int opened = ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

bool memory_is_short() { return memory_ran_out; }

void end_orderly_without_memory() {
  reserve = std::malloc(reserve_bytes);
  std::set_new_handler(on_missing_memory);
  std::set_terminate(on_terminate);
  std::signal(SIGABRT, on_abort);
}

}  // namespace afterglow
