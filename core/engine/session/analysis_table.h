// The table of analyses. The session, `plot`, `train`, `soak` and the tests walk it. To add an analysis, write its
// class and row in analysis_table.cpp, its name in analyses.h, and its view in AnalysisResults.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "core/engine/analyses/accuracy/accuracy_measurement.h"
#include "core/engine/analyses/blame/blame.h"
#include "core/engine/analyses/forecast/forecast_ensemble.h"
#include "core/engine/analyses/influence/influence_measurement.h"
#include "core/engine/analyses/microscope/microscope.h"
#include "core/engine/analyses/phase_map/phase_map.h"
#include "core/engine/analyses/race/race_measurement.h"
#include "core/engine/inspection/inspection_editor.h"
#include "core/engine/inspection/intervention_runner.h"
#include "core/engine/inspection/observer.h"
#include "core/engine/inspection/solver_problems.h"
#include "core/engine/observation/analyses.h"
#include "core/engine/observation/observation.h"
#include "core/engine/session/bisect.h"
#include "core/engine/session/over_training.h"
#include "core/engine/training/training_run.h"

namespace afterglow {

/// A study that runs only after a command requests it.
template <class Study, class Config>
struct RequestedStudy {
  std::optional<Config> config;  ///< nothing: not requested
  std::unique_ptr<Study> study;  ///< of `config`; created when the scheduler has time
};

constexpr std::array<double, analysis_count> whole_parts() {
  std::array<double, analysis_count> parts{};
  parts.fill(1);
  return parts;
}

/// What the analyses of a run read, and what the user has chosen to inspect.
struct AnalysisSubject {
  TrainingRun* run = nullptr;
  Trainer* evaluated = nullptr;                   ///< the run's trainer, or its copy on a side stream
  std::shared_ptr<Observer> recorder;             ///< reads the run's trainer between steps; null for a forecast
  std::shared_ptr<Observer> observer;             ///< reads `evaluated`; equals `recorder` without a copy
  std::unique_ptr<InterventionRunner> inspector;  ///< reads `evaluated`; null for a forecast
  /// Analyses call this between pieces of work that do not read the run, so that training goes on. Empty: nothing to
  /// do.
  std::function<void()> meanwhile;
  std::unique_ptr<InspectionEditor> inspected;  ///< the inspected sequence and the interventions
  int traced_part = -1;                         ///< index into Trainer::parts(), -1: none
  int theory_part = -1, theory_head = 0;        ///< for a part that is no `ska`: the first one
  std::optional<MadeProblem> made_problem;      ///< solved in addition to the layer's systems
  InfluenceConfig influence;
  AccuracyConfig accuracy;
  ForecastEnsemble ensemble;  ///< runs drawn over a forecast
  PhaseMapConfig map_config;
  RequestedStudy<Blame, BlameConfig> blame;
  RequestedStudy<Microscope, MicroscopeConfig> microscope;
  RequestedStudy<Bisect, BisectConfig> bisect;
  RequestedStudy<OverTraining, OverTrainingConfig> over_training;
  /// Share of each analysis that is computed, 0 to 1, by place_of.
  std::array<double, analysis_count> parts = whole_parts();
  std::shared_ptr<PhaseMap> map;  ///< created on request; a run opened from the map keeps it

  std::int64_t step() const { return run->step(); }
  /// The spectra whose mode numbers `evaluated` uses.
  std::shared_ptr<const Spectra> numbered() const { return run->numbered_modes(evaluated->finished_steps()); }
  double part_of(Analysis analysis) const { return parts[place_of(analysis)]; }
};

/// The part of an analysis' work that grows with the model.
struct ModelWork {
  double tokens = 0;  ///< through the whole model; a reverse pass counts as two more
  double steps = 0;   ///< of the recurrent form, each of which reads all weights
  double first =
      0;  ///< share of the smallest piece that shows something; 1: no parts; 0: runs on request only, no parts
};

/// One analysis of one run: its last result and how to compute it again.
class RunAnalysis {
 public:
  virtual ~RunAnalysis() = default;
  /// Whether the result is complete and belongs to this step and the present choices.
  virtual bool is_current() const = 0;
  /// Computes the whole result again. `found` holds the published results of all analyses.
  virtual void update(const AnalysisResults& found) = 0;
  virtual void publish(AnalysisResults& results) const = 0;
  /// The step of the result; -1: no result.
  virtual std::int64_t made_at() const = 0;
  /// Weights or settings have changed: the result is out of date, and history entries later than step `after` are
  /// dropped (-1: all).
  virtual void forget(std::int64_t after) = 0;
  /// Marks the result as out of date because the sequence, part, head or configuration has changed.
  virtual void invalidate() = 0;

  /// Whether work is left; a study that has not been requested has none.
  virtual bool has_work() const { return !is_current(); }
  /// Whether a result of this step, possibly partial, can be shown.
  virtual bool is_answered() const { return is_current(); }
  /// Computes one piece, or everything if the analysis has no pieces.
  virtual void advance(const AnalysisResults& found) { update(found); }
  /// Whether the window waits for a first result; partial results are shown as they come.
  virtual bool is_urgent() const { return false; }
  /// A panel has just opened: computes the result of the present step with priority.
  virtual void make_urgent() {}
  /// Whether the last piece of work gave something to show.
  virtual bool has_news() const { return is_current() || is_urgent(); }
  /// Called after every training step.
  virtual void after_step() {}
  /// No panel shows the analysis: frees all memory but the result.
  virtual void release() {}
};

/// An analysis that works in pieces.
class PiecewiseAnalysis : public RunAnalysis {
 public:
  void advance(const AnalysisResults& found) override = 0;
  void update(const AnalysisResults& found) override {
    while (!is_current()) advance(found);
  }
};

/// When the scheduler runs an analysis. The table is sorted by it.
enum class AnalysisCost {
  quick,        ///< in the observation of the step
  interactive,  ///< follows a control that the user moves: `advance` during the movement, `update` after it
  slow,         ///< waits until commands pause; at rest one for each observation
  piecewise     ///< takes longer than an observation may wait: `advance` between steps
};

struct AnalysisInfo {
  Analysis analysis;
  std::string_view name;  ///< for messages: "influence"
  AnalysisCost cost;
  double min_interval;  ///< seconds between two runs during training
  double weight;        ///< relative share of the time for all requested analyses
  /// The whole work; null: it does not grow with the model.
  ModelWork (*work)(const AnalysisSubject& subject);
  /// Returns null for a run without this analysis, which then counts as current.
  std::unique_ptr<RunAnalysis> (*make)(AnalysisSubject& subject);
};

/// One row for each Analysis; a row comes after those whose results it reads.
std::span<const AnalysisInfo> analysis_table();
/// The row's index.
std::size_t index_of(Analysis analysis);
inline const AnalysisInfo& info_of(Analysis analysis) { return analysis_table()[index_of(analysis)]; }

}  // namespace afterglow
