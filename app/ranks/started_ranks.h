// The group of processes that mpirun or srun started, where this process belongs to one.
#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "app/cli/output.h"
#include "core/ranks/ranks.h"

namespace afterglow {

/// The group; null where this process is alone. Throws Error(usage) for a number of processes that cannot share eight
/// parts, and Error(failure) where the library for MPI is missing.
std::unique_ptr<Ranks> started_ranks();

/// Index of the GPU for this process: the processes of one machine take its GPUs in turn; 0 where it is alone.
int own_gpu();
/// The GPUs that this process may use: `own_gpu`; where it is alone, all of the same model as the first, because
/// another model may compute other bits.
std::vector<int> own_gpus();

/// Runs `work`; a failure ends all processes with its exit code and a message that names the process.
nlohmann::json among_ranks(Ranks* ranks, const Output& output, const std::function<nlohmann::json()>& work);

}  // namespace afterglow
