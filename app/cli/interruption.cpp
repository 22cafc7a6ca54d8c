// Ctrl C by its signal.
#include "app/cli/interruption.h"

#include <csignal>
#include <cstdlib>

#include "core/io/error.h"

namespace afterglow {

namespace {

volatile std::sig_atomic_t interruptions = 0;

void on_interrupt(int) {
  interruptions = interruptions + 1;
  if (interruptions > 1) std::_Exit(static_cast<int>(ExitCode::interrupted));
}

}  // namespace

Interruption::Interruption() {
  interruptions = 0;
  std::signal(SIGINT, on_interrupt);
}

Interruption::~Interruption() { std::signal(SIGINT, SIG_DFL); }

bool Interruption::wanted() const { return interruptions > 0; }

}  // namespace afterglow
