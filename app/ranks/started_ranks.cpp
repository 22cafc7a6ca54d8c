// Recognises mpirun and srun by their environment variables, and loads the MPI plug-in.
#include "app/ranks/started_ranks.h"

#include <dlfcn.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "app/ranks/plugin.h"
#include "core/io/error.h"
#include "core/io/folders.h"
#include "gpu/cuda.h"

namespace afterglow {
namespace {

int number_in_environment(const char* name) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : 0;
}

/// Open MPI's mpirun, MPICH's, and srun with one of their interfaces.
constexpr std::array start_variables{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"};

int started_processes() {
  for (const char* name : {start_variables[0], start_variables[1]}) {
    if (const int count = number_in_environment(name); count > 0) return count;
  }
  return std::getenv(start_variables[2]) ? number_in_environment("SLURM_NTASKS") : 0;
}

/// Advice for a program inside a shell that mpirun or srun started: every program there inherits the variables.
std::string advice_for_one() {
  std::string advice = "; one process alone starts without these variables: env";
  for (const char* name : start_variables) advice += std::getenv(name) ? std::string(" -u ") + name : "";
  return advice + " afterglow train ...";
}

/// This process's number among those of its machine: Open MPI's, MPICH's and Intel's, Slurm's.
int number_on_this_machine() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) {
    if (std::getenv(name) != nullptr) return number_in_environment(name);
  }
  return 0;
}

std::unique_ptr<Ranks> load() {
  std::string why = "this program was built without MPI";
  for (const std::filesystem::path& folder : plugin_folders()) {
    const std::filesystem::path file = folder / mpi_file;
    std::error_code unknown;
    if (!std::filesystem::exists(file, unknown)) continue;
    // Open MPI's own plugins look for its names among all that are loaded.
    void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) {
      why = ::dlerror();
      continue;
    }
    if (auto* make = reinterpret_cast<decltype(&afterglow_mpi_2)>(::dlsym(library, mpi_function)))
      return std::unique_ptr<Ranks>(make());
    why = file.string() + " is of another version";
  }
  throw Error(ExitCode::failure, "several processes were started to train together, but ", why,
              "; install Open MPI (libopenmpi-dev to build with it), or start one process", advice_for_one());
}

}  // namespace

std::unique_ptr<Ranks> started_ranks() {
  const int count = started_processes();
  if (count < 2) return nullptr;
  if (count > shard_count || !std::has_single_bit(static_cast<unsigned>(count)))
    throw UsageError(count, " processes cannot share a batch of ", shard_count, " parts; start 1, 2, 4 or 8",
                     advice_for_one());
  std::unique_ptr<Ranks> ranks = load();
  // Each would train the whole run, and all would write the same files.
  if (ranks->size() != count)
    throw UsageError(count, " processes were started together, but the MPI that this ", "program was built with sees ",
                     ranks->size(), "; start them with that MPI's own mpirun, or with srun --mpi=pmix",
                     advice_for_one());
  return ranks;
}

int own_gpu() {
  const int number = started_processes() > 1 ? number_on_this_machine() : 0;
  const std::size_t gpus = number > 0 ? cuda_devices().devices.size() : 0;
  return gpus > 0 ? number % static_cast<int>(gpus) : 0;
}

std::vector<int> own_gpus() {
  if (started_processes() > 1) return {own_gpu()};
  const CudaSystem system = cuda_devices();
  std::vector<int> alike;
  for (const CudaDevice& device : system.devices) {
    if (device.name == system.devices.front().name) alike.push_back(device.index);
  }
  return alike;
}

nlohmann::json among_ranks(Ranks* ranks, const Output& output, const std::function<nlohmann::json()>& work) {
  if (ranks == nullptr) return work();
  // A failure that all processes meet is reported by the first alone: the others wait, and it ends them.
  const auto end = [&](ExitCode code, const std::string& what) {
    constexpr auto patience = std::chrono::milliseconds(500);
    if (ranks->rank() > 0) std::this_thread::sleep_for(patience);
    const std::string where =
        ranks->rank() > 0 ? "process " + std::to_string(ranks->rank()) + " of " + std::to_string(ranks->size()) + ": "
                          : "";
    ranks->end_all(say_failure(output, code, (where + what).c_str()));
  };
  try {
    return work();
  } catch (const Error& error) {
    end(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    end(ExitCode::out_of_memory, "not enough memory; choose a smaller model, batch or length");
  } catch (const std::exception& error) {
    end(ExitCode::failure, error.what());
  }
  return nullptr;
}

}  // namespace afterglow
