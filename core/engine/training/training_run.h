// A run: a trainer that follows its recipe, with curves, marks, a past to go back to and, after a rewind, a future to
// go on to. It is driven from one thread.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/backend/host_numbers.h"
#include "core/engine/observation/observation.h"
#include "core/engine/training/saved/history.h"
#include "core/engine/training/saved/run_record.h"
#include "core/engine/training/saved/snapshot.h"
#include "core/engine/training/trainer.h"

namespace afterglow {

/// What the next training step would do, without doing it. Weights lie as in the flat buffer.
struct RehearsedStep {
  StoredNumbers weights, after;  ///< now, and after the step
  StoredNumbers gradient;        ///< of the batch's loss with respect to the weights, before clipping
  double loss = 0;
  bool is_finite = true;     ///< false: the step would change nothing and end the training
  bool is_left_out = false;  ///< a command leaves the batch out
};

class TrainingRun {
 public:
  TrainingRun(Recipe recipe, Backend& backend, std::size_t history_limit = History::default_limit);
  /// Goes on from a snapshot; a snapshot that does not fit its own recipe is an Error(bad_input).
  TrainingRun(const Snapshot& snapshot, Backend& backend, std::size_t history_limit = History::default_limit);

  Trainer& trainer() { return *trainer_; }
  const Trainer& trainer() const { return *trainer_; }
  std::int64_t step() const { return trainer_->finished_steps(); }
  bool finished() const { return step() >= trainer_->config().steps || is_out_of_patience(); }
  /// The step whose model counts: of a finished run with patience that of the best held-out evaluation, which `go_to`
  /// reaches exactly; otherwise the present one.
  std::int64_t chosen_step() const;
  /// Step of the best held-out evaluation so far, the first of equal ones; -1 before the first.
  std::int64_t best_step() const;

  /// Trains one step, appends to the curves and applies the recipe's commands of the step that is reached: a state is
  /// the same whether training, a rewind or a snapshot led there. After a non-finite step nothing has changed and
  /// `failure` says what happened.
  bool train_step();
  /// From now on the modes of the heads are numbered, once by modulus and then from one reading to the next, so that a
  /// mode keeps its number. `read` reads the present spectra of a sequence that never changes; they take their numbers
  /// from those that it is given, if any.
  using ReadModes = std::function<std::shared_ptr<const Spectra>(const Spectra* numbered)>;
  void number_modes(ReadModes read) { read_modes_ = std::move(read); }
  /// The last reading at or before `step`, from which modes take their numbers at that step; null where they are not
  /// numbered. Readings are made at steps that depend on nothing but the step: numbers are the same whatever is looked
  /// at, and after a rewind; a snapshot holds the last one.
  std::shared_ptr<const Spectra> numbered_modes(std::int64_t step);
  /// Queues the next step, which `train_step` then ends: nothing else may be asked of the run before, but `step` (its
  /// number) and the two below. False where a command makes more of the step than its work on the device: nothing has
  /// begun.
  bool begin_step();
  bool is_under_way() const { return is_under_way_; }
  /// Whether the device has done its part of it.
  bool is_step_done() const { return trainer_->backend().is_idle(); }
  /// Why training stopped: step, layer, head, tensor and index of the first non-finite number; empty while all is well.
  const std::string& failure() const { return failure_; }

  /// Changes a hyperparameter from the next step on and writes it into the recipe. A different future begins here:
  /// steps that were trained beyond, and commands that were still to come, are dropped.
  /// A live value is one on its way (a slider that is being dragged): with those of the same key that follow, and the
  /// one that settles, it is one change and one mark.
  void set(const std::string& key, double value, bool is_live = false);
  /// Leaves the next batch out: the step that follows is counted, and the model answers the batch, but learns nothing
  /// from it; weights and moments stay, bit for bit. Written into the recipe; another future begins here.
  void leave_out_batch();
  /// From the next step on a part (by its label, "1 ska") keeps its weights and moments, or learns again; the gradients
  /// of all parts are clipped together as before, so that the others' step is the same. Written into the recipe;
  /// another future begins here. Throws Error(bad_input) for a part that is not there.
  void freeze(const std::string& part, bool on);
  /// Fits weights to a spectrum (surgery.h), as a step of its own: the batch is answered and nothing is learned from
  /// it; the optimiser's moments stay. Written into the recipe; another future begins here. `undo` goes back to before
  /// it. Throws Error(bad_input), and nothing has changed, where the spectrum cannot be reached.
  void operate(const nlohmann::json& surgery);
  /// Takes the next step to see what it does, and takes it back: state, curves and recipe stay, bit for bit.
  RehearsedStep rehearse();
  /// Takes the last change at this step back, or makes it again; false when there is none.
  bool undo();
  bool redo();
  /// How many changes `undo` could take back.
  std::size_t undoable() const { return done_.size(); }
  /// What is asked of the model beside training: part of the recipe, without influence on any step.
  void note_probe(nlohmann::json probe) { recipe_.probe = std::move(probe); }
  /// Writes a command that changes no step into the recipe, in place of an earlier one of the same name.
  void note(const Command& command);
  /// Training rests at the present step by itself: a mark on its curves, which snapshots hold. What changes the past up
  /// to here drops it.
  void note_stop(const std::string& reason) { record_.add_stop({step(), reason}); }
  const std::vector<Stop>& stops() const { return record_.stops(); }
  /// How far back `go_to` reaches: 0, or the step of the snapshot that the run goes on from.
  std::int64_t oldest_step() const { return history_.oldest(); }
  /// How far on this run was trained: beyond `step()` after a rewind, until a change begins another future.
  std::int64_t latest_step() const { return latest_step_; }
  /// Goes to a step that was trained before, exactly; or trains forward to a later one. Throws Error(bad_input) for a
  /// step before `oldest_step`.
  void go_to(std::int64_t step);
  /// The first part of it: goes to the kept state nearest to `step`, from where training leads there. False where that
  /// is the present one.
  bool jump_towards(std::int64_t step);
  /// Forgets what was trained beyond the present step, as if training had never been there.
  void forget_ahead();
  /// Follows another recipe, which makes the same states up to step `common` (`common_step`): goes to the last kept one
  /// on the way to its shown step. What was noted while looking stays.
  void go_over_to(const Recipe& other, std::int64_t common);
  /// The recipe that makes the present state again and goes on as this run will: all commands so far and those still
  /// to come.
  Recipe recipe() const;
  /// The present state, to be written or to go on elsewhere.
  Snapshot snapshot() const { return snapshot_of(trainer_->save()); }

  /// Up to the present step, and up to the latest.
  RunCurves curves() const { return curves_until(step() + (failure_.empty() ? 0 : 1)); }
  RunCurves whole_curves() const { return curves_until(latest_step_); }
  const History& history() const { return history_; }
  /// The last kept state at or before the present step, without asking the device: what is left when it was lost.
  /// Nothing where no state has been kept yet.
  std::optional<Snapshot> kept_snapshot() const { return kept_snapshot(step()); }
  /// The same of a step of the past.
  std::optional<Snapshot> kept_snapshot(std::int64_t at) const;
  /// Where training went, as far as the curves reach.
  const Trajectory& trajectory() const { return record_.path(); }
  std::string name = "run 1";

 private:
  void apply(const Command& command);
  const Command* next_of(std::string_view name) const;
  StepResult step_without_learning();
  StepResult step_with_frozen_parts();
  StepResult make_step();
  void begin_future(const Command& command);
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
  RunRecord record_;
  std::int64_t latest_step_ = 0;
  std::size_t next_command_ = 0;
  std::string failure_;
  struct Change {
    std::int64_t first_step, step;  // of its first and last command; they differ where it was live
    std::string key;
    double from, to;
    Command command{};  // a surgery or freeze, in the place of a key
  };
  void undo_surgery(const Change& change);
  std::vector<Change> done_, undone_;
  bool is_live_ = false;       // the last change has not settled
  bool is_under_way_ = false;  // a step has begun that was not ended
  ReadModes read_modes_;
  std::vector<std::shared_ptr<const Spectra>> numbered_;  // steps ascend; they may lie ahead of the present one
  std::set<std::size_t> frozen_;                          // parts that do not learn, by their places in Trainer::parts
};

}  // namespace afterglow
