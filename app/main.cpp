// Afterglow: with a subcommand the command line, without one the window.
#include <malloc.h>

#include <csignal>

#include "app/cli/command_line.h"
#include "app/cli/interruption.h"
#include "app/ranks/started_ranks.h"
#include "core/analysis/linear_algebra/spectrum.h"
#include "core/analysis/linear_algebra/symmetric_eigen.h"
#include "core/engine/training/saved/saved_run.h"
#include "gpu/cuda.h"

namespace {

// Before all other initialisers of the program.
[[gnu::constructor(101)]] void prepare_for_the_worst() {
  afterglow::occupy_standard_streams();
  afterglow::end_orderly_without_memory();
}

}  // namespace

int main(int argc, char** argv) {
  // Large blocks come from the system and go back to it. Among small ones, states and curves that live for hours and
  // what an analysis needs for a moment would fill each other's holes, and memory would grow for minutes.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  // A full disk or a reader that went away is an error to report, not a signal to die of.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  afterglow::register_cuda_maker(
      [](std::string* why_not) { return afterglow::make_cuda_backend(afterglow::own_gpu(), why_not); });
  afterglow::register_symmetric_eigen_solver(afterglow::cuda_symmetric_eigen);
  afterglow::register_general_eigen_solver(afterglow::cuda_general_eigenvalues);
  return afterglow::run_command_line(argc, argv);
}
