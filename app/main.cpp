// Afterglow: with a subcommand the command line, without one the window.
#include "app/cli/command_line.h"
#include "core/engine/moment.h"
#include "gpu/cuda.h"

int main(int argc, char** argv) {
  afterglow::register_cuda_maker([](std::string* why_not) { return afterglow::make_cuda_backend(0, why_not); });
  return afterglow::run_command_line(argc, argv);
}
