// The choice among builds of the CPU kernels.
#include <string>

#include "core/backend/level/cpu_level.h"
#include "core/io/error.h"
#include "core/io/named.h"

namespace afterglow {

const CpuLevel& choose_level(std::span<const CpuLevel> levels, std::string_view wanted) {
  const CpuLevel* best = nullptr;
  for (const CpuLevel& level : levels) {
    if (level.is_supported) best = &level;
  }
  if (best == nullptr)
    throw Error(ExitCode::failure, "this processor is older than ", levels.front().name,
                ", for which the program was built; build it from source on this machine");
  if (wanted.empty()) return *best;
  for (const CpuLevel& level : levels) {
    if (level.name != wanted && !level.name.ends_with("-" + std::string(wanted))) continue;
    if (level.is_supported) return level;
    throw UsageError("AFTERGLOW_CPU_LEVEL asks for ", level.name,
                     ", whose instructions this processor lacks; it can run ", best->name);
  }
  throw UsageError("AFTERGLOW_CPU_LEVEL asks for \"", wanted, "\"; there are ",
                   joined(names_of(levels, &CpuLevel::name), ", "));
}

}  // namespace afterglow
