// Uses only system calls and memory that exists from the start.
#include "app/cli/last_resort.h"

#include <fcntl.h>
#include <unistd.h>

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
