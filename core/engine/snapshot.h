// Snapshots: weights, optimiser moments and recipe of one moment in one safetensors file that Python opens too.
#pragma once
#include <filesystem>
#include <string>

#include "core/engine/trainer.h"
#include "core/io/safetensors.h"

namespace afterglow {

struct Snapshot {
  std::string where;  ///< the file, for messages
  Recipe recipe;
  std::int64_t step = 0;
  std::string checksum;
  TensorFile file;
};

/// The present moment of a trainer, as a file would hold it.
Snapshot make_snapshot(const Recipe& recipe, const Trainer& trainer);
/// The same of a kept state, without asking the device.
Snapshot make_snapshot(const Recipe& recipe, const ParameterStore& store, const TrainerState& state);
/// Parameters under their own names, moments under "optim.first_moment.<name>" and "optim.second_moment.<name>";
/// metadata: format, version, step, checksum, afterglow.recipe (JSON). Atomic.
void write_snapshot(const std::filesystem::path& path, const Recipe& recipe, const Trainer& trainer);
void write_snapshot(const std::filesystem::path& path, const Snapshot& snapshot);
/// Throws Error(bad_input) naming file, field and remedy for anything that is no snapshot.
Snapshot read_snapshot(const std::filesystem::path& path);
/// Compares the file's tensors with the parameters that its recipe declares, before memory is reserved; refuses missing
/// tensors, wrong shapes and non-finite numbers.
void check_weights(const Snapshot& snapshot, const ParameterStore& declared);
TrainerState trainer_state(const Snapshot& snapshot, const ParameterStore& store);

}  // namespace afterglow
