// The CPU kernels as they were built for this machine alone.
#include "core/backend/level/cpu_level.h"

namespace afterglow {

std::string_view cpu_level() { return ""; }
std::unique_ptr<Backend> make_cpu_backend(int threads) { return make_compiled_backend(threads); }

}  // namespace afterglow
