// A run together with the analyses of it. Window and command line share it, so that both see, and export, the same.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/engine/session/analysis_table.h"
#include "core/engine/session/analysis_work.h"
#include "core/engine/session/stop_condition.h"
#include "core/engine/training/saved/saved_run.h"

namespace afterglow {

/// What goes on while a look waits for its device.
struct OverlappedWork {
  std::function<void()> work;  ///< called again and again, and never waits long
  std::function<void()> end;   ///< behind the look
};

class AnalysedRun {
 public:
  /// `history_limit`: bytes of states to go back to.
  AnalysedRun(const SavedRun& saved, Backend& backend, std::size_t history_limit = History::default_limit);
  AnalysedRun(const AnalysedRun&) = delete;  // its analyses know where their subject lies
  AnalysedRun& operator=(const AnalysedRun&) = delete;

  /// From now on looks at the model are made of one that follows it on `backend`, which is beside the run's own and
  /// must outlive it, and meanwhile `update` and `advance` let training go on. Not of a run that forecasts.
  void analyse_on_side_stream(Backend& backend, OverlappedWork meanwhile);
  bool uses_side_stream() const { return evaluation_copy_ != nullptr; }

  TrainingRun& run() { return *run_; }
  const TrainingRun& run() const { return *run_; }

  /// As TrainingRun's; analyses that keep a history record it at steps that the recipe alone fixes.
  bool train_step();
  /// As TrainingRun's; false as well where something has to be looked at behind every step.
  bool begin_step();
  void go_to(std::int64_t step);
  void jump_towards(std::int64_t step);
  void forget_ahead();
  void go_over_to(const Recipe& other, std::int64_t common);

  /// Looks as one does who has just opened this recipe: probe, traced layer, head of the theory, influence.
  void choose_as(const Recipe& recipe);

  bool is_current(Analysis analysis) const;
  bool has_work(Analysis analysis) const;
  /// As RunAnalysis: something of this step can be shown; the window waits for the result.
  bool is_answered(Analysis analysis) const;
  bool is_urgent(Analysis analysis) const;
  /// Something of this step or of an earlier one can be shown, a part of what is measured, too.
  bool can_be_shown(Analysis analysis) const;
  /// The window begins to look at these.
  void make_urgent(AnalysisSet analyses);
  bool has_news(Analysis analysis) const;
  /// No panel shows these: they give back all memory but their results. Called of a large model.
  void release(AnalysisSet unseen);
  /// From now on `describe` tells how long each analysis of a large model takes; a second's work.
  void estimate_work();
  /// Of what takes long of a large model only a part is made until more is asked for; written into the recipe.
  void limit_work();
  /// Whether a share of it shows something, too; if not, it is made as a whole.
  bool has_parts(Analysis analysis) const;
  /// What the command `measure` asks for, from now on; written into the recipe. Throws Error(bad_input).
  void choose_part(const nlohmann::json& value);
  /// Makes one analysis anew, whole, or one part of it. What it reads of another is that one's last result. With
  /// `analyse_on_side_stream` the run may have gone on meanwhile.
  void update(Analysis analysis);
  void advance(Analysis analysis);
  /// Makes those that are not current, in the table's order, and nothing meanwhile. `after_piece` is called after every
  /// piece of work, and may end it by an exception.
  void bring_up_to_date(AnalysisSet analyses, const std::function<void()>& after_piece = {});

  /// Another held-out example as the probe sequence, {"index": 3}, and of another task {"task": {..}} (null: the run's
  /// own); tokens edited by hand are forgotten. Throws Error(bad_input).
  void choose_probe(const nlohmann::json& value);
  /// Carries out `probe_sequence` and the commands of interventions (interventions.h). Throws Error(bad_input).
  void change_probe(const Command& command);
  /// Carries out any command that says what is asked of the model and changes nothing of its training: `probe`,
  /// `change_probe`'s, `influence`, `phase_map`, `blame`, `microscope`. Throws Error(bad_input).
  void ask(const Command& command);
  /// Whether the probe is asked with anything else than what was trained.
  bool probe_has_interventions() const { return !subject_.probe->now().interventions.empty(); }
  /// Whether the probe asks with eigenvalues moved.
  bool probe_moves_eigenvalues() const;
  /// Carries out `surgery`: fits the weights to the eigenvalues that the value names, or that the probe has moved;
  /// these are then no overrides any more. One step of the run. Throws Error(bad_input), and nothing has changed.
  void operate(const nlohmann::json& value);
  /// Takes the last change of the probe or of a hyperparameter back, whichever is younger; false when there is none.
  bool undo();
  bool redo();

  /// The part whose trace, token weights and ridge systems are analysed.
  void choose_trace(int part);
  /// The head that the theorems are held against: of `part` where that is an `ska`, else of the first one.
  void choose_theory(int part, int head);
  /// The system that the solvers race beside the layer's; nothing: the layer's alone.
  void choose_problem(std::optional<MadeProblem> problem);
  /// What the command `influence` asks for, from now on; written into the recipe. Throws Error(bad_input).
  void choose_influence(const nlohmann::json& value);
  /// What the command `phase_map` asks for, from now on; written into the recipe. Throws Error(bad_input).
  void choose_phase_map(const nlohmann::json& value);
  /// What the command `accuracy_grid` asks for, from now on; written into the recipe. Throws Error(bad_input).
  void choose_accuracy(const nlohmann::json& value);
  /// What the command `blame` asks for; written into the recipe. Throws Error(bad_input).
  void choose_blame(const nlohmann::json& value);
  /// What the command `microscope` asks for; written into the recipe. Throws Error(bad_input).
  void choose_microscope(const nlohmann::json& value);
  /// What the commands `bisect` and `over_training` ask for; written into the recipe. Throw Error(bad_input).
  void choose_bisect(const nlohmann::json& value);
  void choose_over_training(const nlohmann::json& value);
  /// Asks for those of these analyses that wait to be asked for and were not, as their commands do without a value.
  void ask_for(AnalysisSet analyses);
  /// What the command `stop_when` asks for, from now on; written into the recipe. Throws Error(bad_input).
  void choose_stop(const nlohmann::json& value);
  /// After a step: why training shall stop with it. The condition of `stop_when` begins to hold; or, judged by the
  /// spectra that the recipe fixes the steps of, a ridge system has become too ill conditioned for float32, in which
  /// all devices factorise. Leaves a mark on the curves.
  std::optional<std::string> stop_reason();
  /// The recipe of a finished run of the map. Throws Error(bad_input) where there is none.
  Recipe run_of_map(std::int64_t place) const;
  /// Goes on with the map of another run where this one is a place of it.
  void take_map(const AnalysedRun& other);
  /// Lays other runs over a forecast: {"path": "a.safetensors"} adds a snapshot, {"paths": [..]} names them all anew.
  /// Written into the recipe. Throws Error(bad_input), and what was there stays.
  void compare_runs(const nlohmann::json& value);
  /// Forgets what was computed from the weights or settings before they changed; of the past only what is later than
  /// step `after`.
  void forget_results(std::int64_t after = -1);

  /// Everything but what only a session knows (running, speed, earlier runs, events) and the checksum.
  Observation describe() const;
  /// The same after `analyses` have been brought up to date, with the checksum of the weights.
  Observation observe(AnalysisSet analyses, const std::function<void()>& after_piece = {});

 private:
  struct StudyRequest {
    Analysis analysis;
    std::string_view command;
    void (AnalysedRun::*choose)(const nlohmann::json& value);
  };
  static const std::array<StudyRequest, 4> study_requests;
  /// Null where the run has nothing of the kind.
  RunAnalysis* find(Analysis analysis) const { return analyses_[index_of(analysis)].get(); }
  void make(Analysis analysis, void (RunAnalysis::*how)(const AnalysisResults&), bool may_train);
  void choose_sequence();
  void invalidate(Analysis analysis);
  void take_choices(const Recipe& recipe);
  void take_commands(const Recipe& recipe);
  AnalysisResults results() const;
  Observation look(AnalysisSet analyses, const std::function<void()>& after_piece = {});
  void take_probe(const ProbeSetup& before);
  void note_parts();
  void after_step();
  void judge_conditioning();
  template <class Study, class Config>
  void take(RequestedStudy<Study, Config>& asked, const Config& config, Analysis analysis);
  bool forecasts() const { return run_->trainer().forecast() != nullptr; }

  std::unique_ptr<TrainingRun> run_;
  std::unique_ptr<Trainer> evaluation_copy_;  // what is looked at in the place of the run's own; null: that itself
  OverlappedWork overlapped_;
  AnalysisSubject subject_;
  StopCondition stop_;
  std::optional<bool> is_ill_conditioned_;              // at the last spectra; unknown before those of a snapshot's run
  std::optional<std::string> conditioning_;             // why training shall stop with this step
  std::optional<Pace> pace_;                            // of a large model, once it was measured
  std::vector<std::unique_ptr<RunAnalysis>> analyses_;  // row by row of the table; null: nothing of the kind
};

}  // namespace afterglow
