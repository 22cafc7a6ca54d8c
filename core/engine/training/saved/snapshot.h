// Snapshots: weights, optimiser moments and recipe of one step in a safetensors file, which Python opens too.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/training/saved/run_record.h"
#include "core/engine/training/trainer.h"
#include "core/io/safetensors.h"

namespace afterglow {

/// Of a run with patience (TrainingConfig): its held-out evaluations and the state of the best one.
struct HeldOutRecord {
  std::vector<double> steps, values;  ///< equally long
  std::int64_t best_step = -1;        ///< one of `steps`
  std::optional<TrainerState> best;   ///< nothing: the present state is the best
};

struct Snapshot {
  std::string where;  ///< the file, for messages
  Recipe recipe;
  std::int64_t step = 0;
  std::string checksum;
  TensorFile file;
};

/// "tiny_seed7_step600": file name, without extension, for a snapshot of this step and its other files.
std::string snapshot_stem(const Recipe& recipe, std::int64_t step);

/// Tensors: parameters under their own names, moments under "optim.first_moment.<name>" and
/// "optim.second_moment.<name>", the memory of training as "memory.rows", curves as "curves.<name>", "modes.numbers" (a
/// row of layer, head, number, real and imaginary part for each eigenvalue of the last reading of `numbered`). With a
/// record also "held_out.steps", "held_out.values", and the best state under the same names with the prefix "best.".
/// Metadata: format, version, step, checksum (of the weights, as displayed), checksum.tensors (of all), modes.step,
/// modes.numbered_at, curves.first_step, curves.stops (JSON: where training stopped by itself, and why),
/// afterglow.recipe (JSON).
Snapshot make_snapshot(const Recipe& recipe, const ParameterStore& store, const TrainerState& state,
                       const RecordedPast& past, const std::optional<HeldOutRecord>& record = std::nullopt,
                       const Spectra* numbered = nullptr);
/// Atomic.
void write_snapshot(const std::filesystem::path& path, const Snapshot& snapshot);
/// Throws Error(bad_input) with file, field and remedy if the file is no snapshot.
Snapshot read_snapshot(const std::filesystem::path& path);
/// Compares the file's tensors with the parameters that its recipe declares, before memory is reserved. Throws
/// Error(bad_input) for missing tensors, wrong shapes and non-finite numbers.
void check_weights(const Snapshot& snapshot, const ParameterStore& declared);
/// The state. Throws Error(bad_input) for a memory of training that lacks rows or is not finite.
TrainerState trainer_state(const Snapshot& snapshot, const ParameterStore& store);
/// Nothing if the file has none. Throws Error(bad_input) if it contradicts itself.
std::optional<HeldOutRecord> held_out_record(const Snapshot& snapshot, const ParameterStore& store);
/// The numbered modes; null if the file has none. Throws Error(bad_input) for invalid rows.
std::shared_ptr<const Spectra> numbered_spectra(const Snapshot& snapshot);
/// Nothing if the file has none. Throws Error(bad_input) for curves that do not reach from their first step to the
/// snapshot's, or that are not those of `layers` parts.
std::optional<RecordedPast> recorded_past(const Snapshot& snapshot, std::size_t layers);
/// Compares the checksums in the file with its tensors. Throws Error(bad_input) that says which one differs.
void check_checksums(const Snapshot& snapshot, const TrainerState& state);

}  // namespace afterglow
