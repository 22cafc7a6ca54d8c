// Snapshots: weights, optimiser moments and recipe of one moment in one safetensors file that Python opens too.
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

/// What a run with patience (TrainingConfig) has found so far: its held-out evaluations and the state of the best one.
struct HeldOutRecord {
  std::vector<double> steps, values;  ///< as long as each other
  std::int64_t best_step = -1;        ///< one of `steps`
  std::optional<TrainerState> best;   ///< nothing: it is the present state
};

struct Snapshot {
  std::string where;  ///< the file, for messages
  Recipe recipe;
  std::int64_t step = 0;
  std::string checksum;
  TensorFile file;
};

/// "tiny_seed7_step600": what a snapshot of this step, and all that belongs to it, is called without its ending.
std::string snapshot_stem(const Recipe& recipe, std::int64_t step);

/// A moment as a file would hold it: parameters under their own names, moments under "optim.first_moment.<name>" and
/// "optim.second_moment.<name>", the memory of training as "memory.rows", what was measured on the way as
/// "curves.<name>"; metadata: format, version, step, checksum (of the weights, as shown), checksum.tensors (of all),
/// modes.step, modes.numbered_at (with "modes.numbers", a row of layer, head, number, real and imaginary part for each
/// eigenvalue: the last reading of `numbered`), curves.first_step, curves.stops (JSON: where training rested by itself,
/// and why), afterglow.recipe (JSON). With a record "held_out.steps", "held_out.values", and the best state under the
/// same names behind "best.".
Snapshot make_snapshot(const Recipe& recipe, const ParameterStore& store, const TrainerState& state,
                       const RecordedPast& past, const std::optional<HeldOutRecord>& record = std::nullopt,
                       const Spectra* numbered = nullptr);
/// Atomic.
void write_snapshot(const std::filesystem::path& path, const Snapshot& snapshot);
/// Throws Error(bad_input) naming file, field and remedy for anything that is no snapshot.
Snapshot read_snapshot(const std::filesystem::path& path);
/// Compares the file's tensors with the parameters that its recipe declares, before memory is reserved; refuses missing
/// tensors, wrong shapes and non-finite numbers.
void check_weights(const Snapshot& snapshot, const ParameterStore& declared);
/// The moment itself. Throws Error(bad_input) for a memory of training that lacks rows or is not finite.
TrainerState trainer_state(const Snapshot& snapshot, const ParameterStore& store);
/// Nothing where the file has none. Throws Error(bad_input) for one that contradicts itself.
std::optional<HeldOutRecord> held_out_record(const Snapshot& snapshot, const ParameterStore& store);
/// The numbered modes; null in files that hold none. Throws Error(bad_input) for rows that make no sense.
std::shared_ptr<const Spectra> numbered_spectra(const Snapshot& snapshot);
/// Nothing in files of programs that did not write it. Throws Error(bad_input) for curves that do not reach from their
/// first step to the snapshot's, or are not those of `layers` parts.
std::optional<RecordedPast> recorded_past(const Snapshot& snapshot, std::size_t layers);
/// Compares the checksums in the file with what it holds. Throws Error(bad_input) that says which one differs.
void check_checksums(const Snapshot& snapshot, const TrainerState& state);

}  // namespace afterglow
