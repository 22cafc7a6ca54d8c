// The one table of analyses. Session, `plot`, `train`, the tour of `soak` and the tests walk it; to add an
// analysis, write its class and its row in analysis_table.cpp, its name in analyses.h, its view into AnalysisResults.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "core/engine/influence/influence_measurement.h"
#include "core/engine/influence/race_measurement.h"
#include "core/engine/observation/analyses.h"
#include "core/engine/observation/observation.h"
#include "core/engine/probing/accuracy_measurement.h"
#include "core/engine/probing/forecast_ensemble.h"
#include "core/engine/probing/intervention_runner.h"
#include "core/engine/probing/observer.h"
#include "core/engine/probing/probe_editor.h"
#include "core/engine/probing/solver_problems.h"
#include "core/engine/session/bisect.h"
#include "core/engine/session/over_training.h"
#include "core/engine/studies/blame.h"
#include "core/engine/studies/microscope.h"
#include "core/engine/studies/phase_map.h"
#include "core/engine/training/training_run.h"

namespace afterglow {

/// A study that waits to be asked for.
template <class Study, class Config>
struct RequestedStudy {
  std::optional<Config> config;  ///< nothing: it has not been asked for
  std::unique_ptr<Study> study;  ///< of `config`, made when there is time
};

constexpr std::array<double, analysis_count> whole_parts() {
  std::array<double, analysis_count> parts{};
  parts.fill(1);
  return parts;
}

/// What the analyses of a run work on, and what the user has chosen to see of it.
struct AnalysisSubject {
  TrainingRun* run = nullptr;
  Trainer* evaluated = nullptr;                ///< the run's own, or one that follows it beside
  std::shared_ptr<Observer> recorder;          ///< of the run's own, between two steps; null in a run that forecasts
  std::shared_ptr<Observer> observer;          ///< of what is looked at; the same where that is the run's own
  std::unique_ptr<InterventionRunner> prober;  ///< the same; null in a run that forecasts
  /// During a look: lets training go on, between pieces of work that need nothing of the run. Empty: nothing does.
  std::function<void()> meanwhile;
  std::unique_ptr<ProbeEditor> probe;       ///< the probe sequence and the interventions in force
  int traced_part = -1;                     ///< index into Trainer::parts(), -1: none
  int theory_part = -1, theory_head = 0;    ///< any other part than an `ska`: the first one
  std::optional<MadeProblem> made_problem;  ///< which the solvers race beside the layer's systems
  InfluenceConfig influence;
  AccuracyConfig accuracy;
  ForecastEnsemble ensemble;  ///< runs laid over a forecast
  PhaseMapConfig map_config;
  RequestedStudy<Blame, BlameConfig> blame;
  RequestedStudy<Microscope, MicroscopeConfig> microscope;
  RequestedStudy<Bisect, BisectConfig> bisect;
  RequestedStudy<OverTraining, OverTrainingConfig> over_training;
  /// Share of each analysis that is made, 0 to 1, by place_of.
  std::array<double, analysis_count> parts = whole_parts();
  std::shared_ptr<PhaseMap> map;  ///< made when it is first asked for; one that is opened goes on with it

  std::int64_t step() const { return run->step(); }
  /// From which modes take their numbers in what is looked at.
  std::shared_ptr<const Spectra> numbered() const { return run->numbered_modes(evaluated->finished_steps()); }
  double part_of(Analysis analysis) const { return parts[place_of(analysis)]; }
};

/// What an analysis asks of the model, as far as it grows with it.
struct ModelWork {
  double tokens = 0;  ///< that go through the whole model in passes; a reverse pass counts as two more
  double steps = 0;   ///< of the recurrent form, each of which reads all weights
  double first = 0;   ///< of the same, share of the smallest piece that shows something; 1: it is made as a whole; 0:
                      ///< it is made when it is asked for, and has no parts
};

/// One analysis of one run: what it found last, and how to find it anew.
class RunAnalysis {
 public:
  virtual ~RunAnalysis() = default;
  /// Whether what was found belongs to this step and to what is asked now, and nothing of it is missing.
  virtual bool is_current() const = 0;
  /// Makes it anew, whole. `found` is what all analyses have published so far.
  virtual void update(const AnalysisResults& found) = 0;
  virtual void publish(AnalysisResults& results) const = 0;
  /// The step that it was found of; -1: nothing was found.
  virtual std::int64_t made_at() const = 0;
  /// Weights or settings have changed: nothing that was found is current, and of the past what is later than step
  /// `after` is forgotten (-1: all).
  virtual void forget(std::int64_t after) = 0;
  /// The subject's sequence, part, head or configuration has changed.
  virtual void invalidate() = 0;

  /// Whether anything is left to be made of it; an analysis that waits to be asked for has nothing to do until then.
  virtual bool has_work() const { return !is_current(); }
  /// Whether there is something of this step to show, though a part may be missing.
  virtual bool is_answered() const { return is_current(); }
  /// One part of the work; the whole, where it has no parts.
  virtual void advance(const AnalysisResults& found) { update(found); }
  /// Whether the window waits for a result that it has not seen yet; its parts are shown as they come.
  virtual bool is_urgent() const { return false; }
  /// The window begins to look: what is of another step is measured anew, and waited for.
  virtual void make_urgent() {}
  /// Whether the last piece of work brought something to show.
  virtual bool has_news() const { return is_current() || is_urgent(); }
  /// Training has finished a step.
  virtual void after_step() {}
  /// No panel shows it any more: gives back all memory but the result.
  virtual void release() {}
};

/// An analysis in parts.
class PiecewiseAnalysis : public RunAnalysis {
 public:
  void advance(const AnalysisResults& found) override = 0;
  void update(const AnalysisResults& found) override {
    while (!is_current()) advance(found);
  }
};

/// How an analysis gets its time. The table is sorted by it.
enum class AnalysisCost {
  quick,        ///< comes with the step, in the same observation
  interactive,  ///< follows a control that the user moves: `advance` at once, `update` when the control rests
  slow,         ///< waits until the user's commands pause; at rest one for each observation
  piecewise     ///< takes longer than an observation may wait: `advance` between steps
};

struct AnalysisInfo {
  Analysis analysis;
  std::string_view name;  ///< "influence", for messages
  AnalysisCost cost;
  double min_interval;  ///< seconds from one to the next while training, however cheap it is
  double weight;        ///< its parts of the time that all requested analyses share
  /// Of the whole; null: nothing that a large model would make long.
  ModelWork (*work)(const AnalysisSubject& subject);
  /// Null for a run that has nothing of the kind: it is always current, and finds nothing.
  std::unique_ptr<RunAnalysis> (*make)(AnalysisSubject& subject);
};

/// One row for each Analysis; what reads another's results comes after it.
std::span<const AnalysisInfo> analysis_table();
/// Of an analysis' row.
std::size_t index_of(Analysis analysis);
inline const AnalysisInfo& info_of(Analysis analysis) { return analysis_table()[index_of(analysis)]; }

}  // namespace afterglow
