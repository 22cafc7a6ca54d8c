// A run with its analyses. Window and command line share this class, so both show and export the same.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/engine/session/analysis_table.h"
#include "core/engine/session/stop_condition.h"
#include "core/engine/training/saved/saved_run.h"

namespace afterglow {

/// Work that the worker does while an analysis waits for its device.
struct OverlappedWork {
  std::function<void()> work;  ///< called repeatedly; must return quickly
  std::function<void()> end;   ///< called once after the analysis
};

class AnalysedRun : public TrainingRun, Immovable {  // its analyses hold pointers into it
 public:
  /// `history_limit`: bytes of saved states for rewinding.
  AnalysedRun(const SavedRun& saved, Backend& backend, std::size_t history_limit = History::default_limit);

  /// From now on analyses run on a copy of the model on `backend` (a second stream, which must outlive this object),
  /// and `advance` lets training go on through `meanwhile`. Not available for a run that forecasts.
  void analyse_on_side_stream(Backend& backend, OverlappedWork meanwhile);
  bool uses_side_stream() const { return evaluation_copy_ != nullptr; }

  /// Whether an analysis has to run after every step, so that no step may be queued during another one.
  bool is_judged_at_each_step() const { return stop_.is_given(); }
  /// Resets everything that the user can choose (inspected sequence, traced layer, head of the theory, influence) to
  /// what `recipe` says.
  void choose_as(const Recipe& recipe);

  /// How far the analysis is; `idle` if no part of it is wanted.
  AnalysisState state(Analysis analysis) const;
  bool is_current(Analysis analysis) const { return state(analysis).is_current(); }
  bool has_work(Analysis analysis) const { return state(analysis).has_work(); }
  /// The window has just opened panels of these analyses; the scheduler computes them first.
  void make_urgent(AnalysisSet analyses);
  /// No panel shows these analyses: they free all memory but their results. Called for large models.
  void release(AnalysisSet unseen);
  /// From now on `describe` reports how long each analysis of a large model takes. Measuring that takes about a second.
  void estimate_work();
  /// Computes only a part of each slow analysis of a large model until the user requests more; recorded in the recipe.
  void limit_work();
  /// Whether the analysis can show a part of its result; if not, it is computed as a whole.
  bool has_parts(Analysis analysis) const;
  /// Carries out the command `measure`; recorded in the recipe. Throws Error(bad_input).
  void choose_part(const nlohmann::json& value);
  /// Computes a piece of one analysis or all that is left. With `analyse_on_side_stream`, training may go on during the
  /// call unless `may_train` is false.
  void advance(Analysis analysis, Budget budget = Budget::piece, bool may_train = true);
  /// Computes the analyses that are not current, in the table's order, without training in between. `after_piece` runs
  /// after every piece of work; it may stop the work by an exception.
  void bring_up_to_date(AnalysisSet analyses, const std::function<void()>& after_piece = {});

  /// Inspects another held-out example, {"index": 3}, also of another task {"task": {..}} (null: the run's own).
  /// Discards tokens edited by hand. Throws Error(bad_input).
  void choose_inspected(const nlohmann::json& value);
  /// Carries out `inspected_sequence` and the commands of interventions (interventions.h). Throws Error(bad_input).
  void change_inspection(const Command& command);
  /// Carries out any command that changes what is analysed but not the training: `probe`, `measure`, those of
  /// `change_inspection` and of `choose`. Throws Error(bad_input).
  void ask(const Command& command);
  /// Carries out the command of an analysis (AnalysisSettings), such as `influence`, and records its settings in the
  /// recipe. Throws Error(bad_input) and then changes nothing.
  void choose(std::string_view command, const nlohmann::json& value);
  /// The run that the command opens, such as a finished run of the phase map; nothing if it only changes settings.
  /// Throws Error(bad_input).
  std::optional<Recipe> opened_by(const Command& command) const;
  /// Whether any intervention is in force.
  bool inspection_has_interventions() const { return !subject_.inspected->now().interventions.empty(); }
  /// Whether an intervention moves eigenvalues.
  bool inspection_moves_eigenvalues() const;
  /// Carries out `surgery`: fits the weights to the eigenvalues that the value names or that the user has moved, and
  /// removes these interventions. Counts as one step of the run. Throws Error(bad_input) and then changes nothing.
  void operate(const nlohmann::json& value);
  /// Takes back or repeats the last change of the run or of what is inspected, by the run's journal; false without one.
  bool undo();
  bool redo();

  /// Chooses the part whose trace, token weights and ridge systems are analysed.
  void choose_trace(int part);
  /// Chooses the head that the theorems are compared with: of `part` if that is an `ska`, else of the first `ska`.
  void choose_theory(int part, int head);
  /// Starts those of these analyses that wait for a command and have had none, with their default settings.
  void ask_for(AnalysisSet analyses);
  /// Carries out `stop_when`; recorded in the recipe. Throws Error(bad_input).
  void choose_stop(const nlohmann::json& value);
  /// Carries out `note`, which can be undone; recorded in the recipe. Throws Error(bad_input).
  void write_note(const nlohmann::json& value);
  /// Why training must stop after this step, if it must: the condition of `stop_when` has begun to hold, or a ridge
  /// system is too ill-conditioned for float32, in which all devices factorise. The latter is judged at steps that
  /// depend on the recipe alone. Adds a mark to the curves.
  std::optional<std::string> stop_reason();
  /// Takes over what the analyses of another run have found that also holds for this one.
  void take_over(const AnalysedRun& before);
  /// Discards results that depend on weights or settings that have changed; of recorded histories only entries later
  /// than step `after`.
  void forget_results(std::int64_t after = -1) override;

  /// The observation without checksum and without what only a session knows (running, speed, earlier runs, events).
  Observation describe() const;
  /// Brings `analyses` up to date first, and adds the checksum of the weights.
  Observation observe(AnalysisSet analyses, const std::function<void()>& after_piece = {});

 private:
  RunAnalysis& find(Analysis analysis) const { return *analyses_[index_of(analysis)]; }
  void choose_sequence();
  void invalidate(Analysis analysis);
  void take_choices(const Recipe& recipe);
  void take_commands(const Recipe& recipe);
  AnalysisResults results() const;
  Observation analysed(AnalysisSet analyses, const std::function<void()>& after_piece = {});
  void take_inspection(const InspectionSetup& now);
  void edit_inspection(InspectionSetup to, const std::string& gesture = "", bool is_live = false);
  void note_parts();
  /// Analyses with a history record it at steps that depend on the recipe alone.
  void after_step() override;
  void judge_conditioning();
  void note_settings(const AnalysisSettings& settings);
  bool forecasts() const { return trainer().forecast() != nullptr; }

  std::unique_ptr<Trainer> evaluation_copy_;  // analysed in place of the run's trainer; null: no copy
  OverlappedWork overlapped_;
  AnalysisSubject subject_;
  StopCondition stop_;
  std::optional<bool> is_ill_conditioned_;              // at the last spectra; unset before them
  std::optional<std::string> conditioning_;             // why training must stop at this step
  std::optional<Pace> pace_;                            // of a large model, once measured
  std::vector<std::unique_ptr<RunAnalysis>> analyses_;  // in the table's order
};

}  // namespace afterglow
