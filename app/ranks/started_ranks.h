// The processes among which this one was started, if it was: by mpirun or srun.
#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "app/cli/output.h"
#include "core/engine/training/ranks/ranks.h"

namespace afterglow {

/// Null where this process is alone. Throws Error(usage) for a number of processes that cannot share eight parts, and
/// Error(failure) where the library for MPI is missing.
std::unique_ptr<Ranks> started_ranks();

/// The GPU that this process takes: those of one machine go around it; 0 where it is alone.
int own_gpu();
/// The GPUs that this process may take: its own; where it is alone, all that are like the first, as others may find
/// other bits.
std::vector<int> own_gpus();

/// Does the work; a failure ends all processes with its exit code, and says where it happened.
nlohmann::json among_ranks(Ranks* ranks, const Output& output, const std::function<nlohmann::json()>& work);

}  // namespace afterglow
