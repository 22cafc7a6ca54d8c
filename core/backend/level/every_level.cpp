// The CPU kernels as packages hold them: three builds of make_compiled_backend, which levels.cmake has renamed.
#include <array>
#include <cstdlib>

#include "core/backend/level/cpu_level.h"

namespace afterglow {

std::unique_ptr<Backend> make_compiled_backend_v2(int threads);
std::unique_ptr<Backend> make_compiled_backend_v3(int threads);
std::unique_ptr<Backend> make_compiled_backend_v4(int threads);

namespace {

/// Chosen once: all results of a process have the bits of one level.
const CpuLevel& chosen_level() {
  static const std::array levels{
      CpuLevel{"x86-64-v2", __builtin_cpu_supports("x86-64-v2") != 0, make_compiled_backend_v2},
      CpuLevel{"x86-64-v3", __builtin_cpu_supports("x86-64-v3") != 0, make_compiled_backend_v3},
      CpuLevel{"x86-64-v4", __builtin_cpu_supports("x86-64-v4") != 0, make_compiled_backend_v4}};
  static const char* const wanted = std::getenv("AFTERGLOW_CPU_LEVEL");
  static const CpuLevel& chosen = choose_level(levels, wanted == nullptr ? "" : wanted);
  return chosen;
}

}  // namespace

std::string_view cpu_level() { return chosen_level().name; }
std::unique_ptr<Backend> make_cpu_backend(int threads) { return chosen_level().make(threads); }

}  // namespace afterglow
