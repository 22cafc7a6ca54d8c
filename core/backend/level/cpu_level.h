// Which build of the CPU kernels serves. A package holds them three times, for three generations of processors, as one
// build for the oldest would be half as fast; a build for this machine alone holds them once.
#pragma once
#include <memory>
#include <span>
#include <string_view>

#include "core/backend/backend.h"

namespace afterglow {

/// "x86-64-v2", "x86-64-v3" or "x86-64-v4": the highest that this processor can run, or what the environment variable
/// AFTERGLOW_CPU_LEVEL asks for. Results have the same bits on every machine with the same level. Empty where the
/// kernels were built for this machine alone.
std::string_view cpu_level();

struct CpuLevel {
  std::string_view name;
  bool is_supported;  ///< by this processor
  std::unique_ptr<Backend> (*make)(int threads);
};
/// The last of the levels, which are in rising order, that the processor can run, or the one that is `wanted` by its
/// name or its end, "v3". Error(usage) says why it cannot be.
const CpuLevel& choose_level(std::span<const CpuLevel> levels, std::string_view wanted);

/// What the kernels of core/backend/cpu were compiled to.
std::unique_ptr<Backend> make_compiled_backend(int threads);

}  // namespace afterglow
