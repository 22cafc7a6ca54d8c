// Signals that ask the program to end.
#include "app/cli/interruption.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <string_view>

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

}  // namespace afterglow
