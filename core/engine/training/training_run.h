// A run: a trainer that follows its recipe, with curves, marks, saved states to rewind to, and after a rewind the steps
// trained beyond it. Used from one thread.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/backend/host_numbers.h"
#include "core/engine/observation/observation.h"
#include "core/engine/training/saved/run_record.h"
#include "core/engine/training/saved/snapshot.h"
#include "core/engine/training/trainer.h"
#include "core/recipe/journal.h"

namespace afterglow {

class RunFolder;
struct SavedRun;
struct StoredState;

/// What the next training step would do. Weights have the layout of the flat buffer.
struct RehearsedStep {
  StoredNumbers weights, after;  ///< now, and after the step
  StoredNumbers gradient;        ///< of the batch's loss with respect to the weights, before clipping
  double loss = 0;
  bool is_finite = true;     ///< false: the step would change nothing and end the training
  bool is_left_out = false;  ///< a command leaves the batch out
};

class TrainingRun {
 public:
  /// `origin`: the recipe's folder of weights if it is open already; null: the run opens it.
  TrainingRun(Recipe recipe, Backend& backend, std::size_t history_limit = History::default_limit,
              const Checkpoint* origin = nullptr);
  /// Continues from a snapshot. Throws Error(bad_input) if the snapshot does not fit its own recipe.
  TrainingRun(const Snapshot& snapshot, Backend& backend, std::size_t history_limit = History::default_limit);
  /// Either of them; `go_to` opens the last state of the saved run's folder, if it has one, at or before a step.
  TrainingRun(const SavedRun& saved, Backend& backend, std::size_t history_limit = History::default_limit);
  virtual ~TrainingRun() = default;

  /// Another program fills it; null: this run is trained here.
  const std::shared_ptr<RunFolder>& folder() const { return folder_; }

  Trainer& trainer() { return *trainer_; }
  const Trainer& trainer() const { return *trainer_; }
  std::int64_t step() const { return trainer_->finished_steps(); }
  bool finished() const { return step() >= trainer_->config().steps || is_out_of_patience(); }
  /// The step whose model is the result: for a finished run with patience that of the best held-out evaluation, which
  /// `go_to` reaches exactly; otherwise the present one.
  std::int64_t chosen_step() const;
  /// Step of the best held-out evaluation so far, the first of equal ones; -1 before the first.
  std::int64_t best_step() const;

  /// Trains one step, appends to the curves and applies the recipe's commands at the new step, so that a state is the
  /// same after training, a rewind or a snapshot. After a non-finite step nothing has changed and `failure` says what
  /// happened.
  bool train_step();
  /// From now on the heads' modes are numbered, first by modulus and then by tracking from one reading to the next, so
  /// that a mode keeps its number. `read` returns the present spectra of a fixed sequence, numbered after the given
  /// ones, if any.
  using ReadModes = std::function<std::shared_ptr<const Spectra>(const Spectra* numbered)>;
  void number_modes(ReadModes read) { read_modes_ = std::move(read); }
  /// The last reading at or before `step`, from which modes take their numbers; null if they are not numbered. The
  /// steps of readings depend on the recipe alone, so numbers do not depend on what the user inspects or rewinds; a
  /// snapshot holds the last reading.
  std::shared_ptr<const Spectra> numbered_modes(std::int64_t step);
  /// Queues the next step, which `train_step` then ends; in between only `step` (its number) and the two functions
  /// below may be called. False, with nothing begun, if a command makes the step more than its work on the device.
  bool begin_step();
  bool is_under_way() const { return is_under_way_; }
  /// Whether the device has finished the queued work.
  bool is_step_done() const { return trainer_->backend().is_idle(); }
  /// Why training stopped: step, layer, head, tensor and index of the first non-finite number; empty if it did not.
  const std::string& failure() const { return failure_; }

  /// Changes a hyperparameter from the next step on and records it in the recipe. This begins another future: later
  /// steps and pending commands are dropped.
  /// A live value comes from a slider that is being dragged: together with the following values of the same key, up to
  /// the final one, it counts as one change and one mark.
  void set(const std::string& key, double value, bool is_live = false);
  /// Leaves the next batch out: the step counts and the model answers the batch, but weights and moments stay, bit for
  /// bit. Recorded in the recipe; begins another future.
  void leave_out_batch();
  /// From the next step on a part (by its label, "1 ska") keeps its weights and moments, or learns again. The gradients
  /// of all parts are still clipped together, so that the other parts' step is the same. Recorded in the recipe; begins
  /// another future. Throws Error(bad_input) for an unknown part.
  void freeze(const std::string& part, bool on);
  /// Fits weights to a spectrum (surgery.h) as a step of its own: the batch is answered but not learned; the moments
  /// stay. Recorded in the recipe; begins another future. Returns what restores the state before it, for the journal.
  /// Throws Error(bad_input) and changes nothing if the spectrum cannot be reached.
  Journal::Undo operate(const nlohmann::json& surgery);
  /// Makes the next step and reverts it: state, curves and recipe stay, bit for bit.
  RehearsedStep rehearse();
  /// The changes above that can be undone; going back in time and leaving out a batch forget those of the run. Taking
  /// back a change of this very step removes it from the recipe; once training has passed it, the opposite is recorded.
  Journal& journal() { return journal_; }
  const Journal& journal() const { return journal_; }
  /// Records the inspected sequence and interventions in the recipe; they influence no step.
  void note_inspection(nlohmann::json inspected) { recipe_.inspected = std::move(inspected); }
  /// Records a command that changes no step in the recipe, in place of an earlier one of the same name.
  void note(const Command& command);
  /// Records that training stopped by itself at the present step: a mark on the curves, saved in snapshots, and dropped
  /// with any change of the past up to here.
  void note_stop(const std::string& reason) { record_.add_stop({step(), reason}); }
  const std::vector<Stop>& stops() const { return record_.stops(); }
  /// The earliest step that `go_to` reaches: 0, or the step of the snapshot that the run started from.
  std::int64_t oldest_step() const;
  /// The last step that was trained: beyond `step()` after a rewind, until a change begins another future.
  std::int64_t latest_step() const;
  /// Goes exactly to a step that was trained before, or trains forward to a later one. Throws Error(bad_input) for a
  /// step before `oldest_step`.
  void go_to(std::int64_t step);
  /// The first half of `go_to`: restores the saved state nearest to `step`, from which training continues.
  void jump_towards(std::int64_t step);
  /// Drops everything that was trained beyond the present step.
  void forget_ahead();
  /// Switches to another recipe with the same states up to step `common` (`common_step`): restores the last saved state
  /// that both share before its shown step. Keeps the recorded choices of analyses.
  void go_over_to(const Recipe& other, std::int64_t common);
  /// The recipe that repeats the present state and continues as this run will: all commands, past and pending.
  Recipe recipe() const;
  /// The present state, for a file or another device.
  Snapshot snapshot() const { return snapshot_of(trainer_->save()); }

  /// Up to the present step, and up to the latest.
  RunCurves curves() const { return curves_until(step() + (failure_.empty() ? 0 : 1)); }
  RunCurves whole_curves() const { return curves_until(latest_step_); }
  const History& history() const { return history_; }
  /// The states that `go_to` starts from, those of the folder without checksums.
  std::shared_ptr<const std::vector<KeptState>> kept() const;
  /// The last saved state at or before the present step, read from host memory, for the case that the device was lost.
  /// Nothing if no state has been saved yet.
  std::optional<Snapshot> kept_snapshot() const { return kept_snapshot(step()); }
  /// The same for an earlier step.
  std::optional<Snapshot> kept_snapshot(std::int64_t at) const;
  /// The trajectory of training, as long as the curves.
  const Trajectory& trajectory() const { return record_.path(); }
  std::string name = "run 1";

 protected:
  // What else belongs to a run follows it by these two.
  /// Called after each finite step, and at each state of a folder.
  virtual void after_step() {}
  /// What was found of the present step no longer holds, nor what was recorded later than step `after`.
  virtual void forget_results(std::int64_t /*after*/) {}

 private:
  TrainingRun(Recipe recipe, const Snapshot* snapshot, Backend& backend, std::size_t history_limit,
              const Checkpoint* origin);
  void begin_at(const Snapshot& snapshot);
  TrainerState take_state(const Snapshot& snapshot);
  bool open_stored(const StoredState& stored);
  void forget_changes();
  void apply(const Command& command);
  const Command* next_of(std::string_view name) const;
  StepResult step_without_learning();
  StepResult step_with_frozen_parts();
  StepResult make_step();
  std::vector<TimedCommand> begin_future(const Command& command);
  void remove_last_command(const std::vector<TimedCommand>& pending);
  Command opposite_of(const Command& command) const;
  Journal::Change change_of(const Command& command);
  bool restore_before(std::int64_t step);
  void apply_due_commands();
  void rebuild_config();
  bool keeps_best() const;
  RunCurves curves_until(std::int64_t step) const;
  void evaluate();
  bool is_out_of_patience() const;
  Snapshot snapshot_of(const TrainerState& state) const;
  void read_modes();
  std::shared_ptr<const Spectra> last_numbered(std::int64_t step) const;
  std::optional<HeldOutRecord> record_until(std::int64_t step) const;
  void take_record(const HeldOutRecord& record);

  Recipe recipe_;
  std::unique_ptr<Trainer> trainer_;
  History history_;
  std::shared_ptr<RunFolder> folder_;
  RunRecord record_;
  std::int64_t latest_step_ = 0;
  std::size_t next_command_ = 0;
  std::string failure_;
  Journal journal_;
  bool is_under_way_ = false;  // a step has begun and not ended
  ReadModes read_modes_;
  std::vector<std::shared_ptr<const Spectra>> numbered_;  // steps ascend, possibly beyond the present one
  std::set<std::size_t> frozen_;                          // frozen parts, as indices into Trainer::parts
};

}  // namespace afterglow
