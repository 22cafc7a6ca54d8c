// A run together with what is seen of it: spectra at fixed steps for the trails, the present spectrum, the trace.
// Window and command line share it, so that both see, and export, the same.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "core/engine/influence/influence_measurement.h"
#include "core/engine/observation/memory_view.h"
#include "core/engine/probing/forecast_ensemble.h"
#include "core/engine/probing/intervention_runner.h"
#include "core/engine/probing/observer.h"
#include "core/engine/recipe/probe_setup.h"
#include "core/engine/training/saved_run.h"

namespace afterglow {

class AnalysedRun {
 public:
  AnalysedRun(const SavedRun& moment, Backend& backend);

  TrainingRun& run() { return *run_; }
  const TrainingRun& run() const { return *run_; }

  /// As TrainingRun's; the trail is recorded at steps that do not depend on when anybody looks.
  bool train_step();
  void go_to(std::int64_t step);

  /// Another held-out example as the probe sequence; tokens edited by hand are forgotten.
  void choose_probe(std::uint64_t index);
  /// Carries out `probe_sequence` and the commands of interventions (interventions.h). Throws Error(bad_input).
  void change_probe(const Command& command);
  /// Takes the last change of the probe or of a hyperparameter back, whichever is younger; false when there is none.
  bool undo();
  bool redo();
  void choose_trace(int part);
  /// Lays other runs over a forecast: {"path": "a.safetensors"} adds a snapshot, {"paths": [..]} names them all anew.
  /// Written into the recipe. Throws Error(bad_input), and what was there stays.
  void compare_runs(const nlohmann::json& value);
  /// The system that the solvers race beside the layer's; nothing: the layer's alone.
  void choose_problem(std::optional<MadeProblem> problem);
  /// Forgets what was computed from the weights or settings before they changed.
  void forget_looks();

  bool spectra_are_current() const;
  bool trace_is_current() const;
  bool probe_is_current() const;
  /// The same, but for the accuracy, which may be that of the interventions before.
  bool probe_is_answered() const;
  /// Whether the probe is asked with anything else than what was trained.
  bool probe_has_interventions() const { return !history_.now().interventions.empty(); }
  bool solvers_are_current() const;
  void update_spectra();
  /// The trace, the token weights of the same layer, and the path of training; of a forecaster its forecasts.
  void update_trace();
  /// What the probe sequence is answered, with the interventions in force; wants current spectra.
  void update_probe();
  /// The same at once, without the accuracy on many sequences; `update_probe` has to follow.
  void answer_probe();
  void update_solvers();

  /// What the command `influence` asks for, from now on; written into the recipe. Throws Error(bad_input).
  void choose_influence(const nlohmann::json& value);
  bool influence_is_current() const;
  /// Whether somebody waits for the first measurement, or for one of other settings; its parts are shown as they come.
  bool influence_is_awaited() const { return influence_is_awaited_ && !forecasts(); }
  /// One piece of the measurement that is under way, or the begin of one of this moment.
  void advance_influence();
  void measure_influence();

  /// The head whose theory is looked at: of `part` where that is an `ska`, else of the first one.
  void choose_theory(int part, int head);
  bool theory_is_current() const;
  void update_theory();

  /// Everything but what only a session knows (running, speed, earlier runs, events).
  Observation describe() const;

 private:
  void forget_moment();
  bool turn_setup(void (ProbeHistory::*turn)());
  bool forecasts() const { return run_->trainer().forecast() != nullptr; }
  void record_spectra();
  void take_setup(const ProbeSetup& before);
  void change_setup(ProbeSetup setup, bool is_live);
  int token_of(const nlohmann::json& value) const;
  std::unique_ptr<TrainingRun> run_;
  std::unique_ptr<Observer> observer_;
  std::unique_ptr<InterventionRunner> prober_;  // as the observer, only for runs on tokens
  ProbeHistory history_;
  InfluenceConfig influence_config_;
  std::unique_ptr<InfluenceMeasurement> influence_;  // made when somebody measures
  bool influence_is_stale_ = true;                   // weights or settings changed since the measurement began
  bool influence_is_awaited_ = true;
  int traced_part_ = -1;
  std::int64_t spectrum_interval_ = 10;  // steps; a function of the recipe alone
  std::deque<std::shared_ptr<const Spectra>> spectrum_history_;
  std::shared_ptr<const Spectra> spectra_;
  std::shared_ptr<const Trace> trace_;
  std::shared_ptr<const TokenWeights> token_weights_;
  std::shared_ptr<const TrajectoryView> trajectory_;
  std::shared_ptr<const ForecastView> forecast_;
  ForecastEnsemble ensemble_;  // only where the run forecasts
  std::shared_ptr<const MemoryView> memory_;
  std::shared_ptr<const ProbeView> probe_;
  std::optional<double> last_accuracy_;  // of the probe at `accuracy_step_`
  std::int64_t accuracy_step_ = -1;
  bool accuracy_is_old_ = false;  // `probe_` has that of earlier interventions
  std::optional<MadeProblem> made_problem_;
  std::shared_ptr<const SolverView> solvers_;
  int theory_part_ = -1, theory_head_ = 0;
  std::shared_ptr<const TheoryView> theory_;
  std::shared_ptr<const DepthView> depth_;
  bool theory_is_stale_ = true;  // what is shown meanwhile is the last one
};

}  // namespace afterglow
