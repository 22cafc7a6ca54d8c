// What the session knows of an analysis: its row (when it runs, its work, its settings) and the interface of its code.
// The session, `plot`, `train` and the tests walk the table. core/engine/README.md says how to add an analysis.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <typeindex>

#include "core/engine/inspection/inspection_editor.h"
#include "core/engine/inspection/intervention_runner.h"
#include "core/engine/inspection/observer.h"
#include "core/engine/observation/analyses.h"
#include "core/engine/observation/observation.h"
#include "core/engine/training/training_run.h"
#include "core/io/field_table.h"

namespace afterglow {

constexpr std::array<double, analysis_count> whole_parts() {
  std::array<double, analysis_count> parts{};
  parts.fill(1);
  return parts;
}

/// What the analyses of a run read, and what the user has chosen to inspect.
class AnalysisSubject {
 public:
  TrainingRun* run = nullptr;
  Trainer* evaluated = nullptr;                   ///< the run's trainer, or its copy on a side stream
  std::shared_ptr<Observer> recorder;             ///< reads the run's trainer between steps; null for a forecast
  std::shared_ptr<Observer> observer;             ///< reads `evaluated`; equals `recorder` without a copy
  std::unique_ptr<InterventionRunner> inspector;  ///< reads `evaluated`; null for a forecast
  /// Analyses call this between pieces of work that do not read the run, so that training goes on. May be empty.
  std::function<void()> meanwhile;
  std::unique_ptr<InspectionEditor> inspected;  ///< the inspected sequence and the interventions
  int traced_part = -1;                         ///< index into Trainer::parts(), -1: none
  int theory_part = -1, theory_head = 0;        ///< for a part that is no `ska`: the first one
  /// Share of each analysis that is computed, 0 to 1, by place_of.
  std::array<double, analysis_count> parts = whole_parts();

  std::int64_t step() const { return run->step(); }
  /// The spectra whose mode numbers `evaluated` uses.
  std::shared_ptr<const Spectra> numbered() const { return run->numbered_modes(evaluated->finished_steps()); }
  double part_of(Analysis analysis) const { return parts[place_of(analysis)]; }
  /// What an analysis keeps here for the run, one value of each type: its settings, and a study that outlives them.
  template <class T>
  T& chosen() {
    return value<T>();
  }
  template <class T>
  const T& chosen() const {
    return value<T>();
  }

 private:
  template <class T>
  T& value() const {
    std::shared_ptr<void>& kept = chosen_[typeid(T)];
    if (!kept) kept = std::make_shared<T>();
    return *static_cast<T*>(kept.get());
  }
  mutable std::map<std::type_index, std::shared_ptr<void>> chosen_;
};

/// The part of an analysis' work that grows with the model.
struct ModelWork {
  double tokens = 0;  ///< through the whole model; a reverse pass counts as two more
  double steps = 0;   ///< of the recurrent form, each of which reads all weights
  double first = 0;   ///< share of the smallest useful piece; 1: no parts; 0: runs on request only, no parts
};

/// How far an analysis of a run is.
struct AnalysisState {
  AnalysisPhase phase = AnalysisPhase::waiting;
  std::int64_t made_at = -1;  ///< the step of the result; -1: no result
  bool is_answered = false;   ///< a result of this step, possibly partial, can be shown
  bool is_urgent = false;     ///< the window waits for a first result; partial results are shown as they come
  bool has_news = false;      ///< the last piece of work gave something to show
  double share_done = 0;      ///< of the measurement in progress, 0 to 1
  bool is_current() const { return phase == AnalysisPhase::current; }
  bool has_work() const { return phase == AnalysisPhase::waiting || phase == AnalysisPhase::computing; }
};

/// How much an analysis computes in one call: what can be shown soon, or all.
enum class Budget { piece, whole };

/// One analysis of one run: its last result and how to compute it again.
class RunAnalysis {
 public:
  virtual ~RunAnalysis() = default;
  virtual AnalysisState state() const = 0;
  /// Computes one piece of the result, or everything if the analysis has no pieces.
  virtual void advance(Budget budget) = 0;
  virtual void publish(AnalysisResults& results) const = 0;
  /// Weights or settings have changed: the result is out of date, and history entries later than step `after` are
  /// dropped (-1: all).
  virtual void forget(std::int64_t after) = 0;
  /// Marks the result as out of date because the sequence, part, head or configuration has changed.
  virtual void invalidate() = 0;
  /// A panel has just opened: computes the result of the present step with priority.
  virtual void make_urgent() {}
  /// Called after every training step.
  virtual void after_step() {}
  /// No panel shows the analysis: frees all memory but the result.
  virtual void release() {}
  /// The window opens this run in place of `before`: keeps what also holds here.
  virtual void take_over(const AnalysisSubject& /*before*/) {}
};

/// One that works in pieces and belongs to no step of the run.
class UntiedAnalysis : public RunAnalysis {
 public:
  explicit UntiedAnalysis(AnalysisSubject& of) : of_(&of) {}
  void forget(std::int64_t) override { invalidate(); }
  void invalidate() override {}

 protected:
  AnalysisSubject* of_;
  bool has_news_ = false;
};

/// In place of an analysis that a run does not have.
class AbsentAnalysis final : public UntiedAnalysis {
 public:
  using UntiedAnalysis::UntiedAnalysis;
  AnalysisState state() const override { return {AnalysisPhase::current}; }
  void advance(Budget) override {}
  void publish(AnalysisResults&) const override {}
};

/// One whose whole result belongs to a step: the view's.
template <class View>
class StepAnalysis : public RunAnalysis {
 public:
  explicit StepAnalysis(AnalysisSubject& of) : of_(&of) {}
  AnalysisState state() const override {
    const std::int64_t made_at = view_ ? view_->step : -1;
    const bool is_current = made_at == of_->step();
    return {is_current ? AnalysisPhase::current : AnalysisPhase::waiting, made_at, is_current};
  }
  void forget(std::int64_t) override { invalidate(); }
  void invalidate() override { view_.reset(); }

 protected:
  AnalysisSubject* of_;
  std::shared_ptr<const View> view_;
};

/// The same; panels show the last result until `measure` has made the next.
template <class View>
class LastingAnalysis : public StepAnalysis<View> {
 public:
  using StepAnalysis<View>::StepAnalysis;
  AnalysisState state() const override {
    const AnalysisState now = StepAnalysis<View>::state();
    return is_stale_ ? AnalysisState{AnalysisPhase::waiting, now.made_at} : now;
  }
  void advance(Budget) override {
    is_stale_ = false;
    measure();
  }
  void invalidate() override { is_stale_ = true; }

 private:
  virtual void measure() = 0;
  bool is_stale_ = true;
};

/// When the scheduler runs an analysis. The table is sorted by it.
enum class AnalysisCost {
  quick,        ///< in the observation of the step
  interactive,  ///< follows a control that the user moves: a piece during the movement, the whole after it
  slow,         ///< waits until commands pause; at rest one for each observation
  piecewise     ///< takes longer than an observation may wait: a piece between steps
};

/// The settings of an analysis, which a command of the window, `plot --ask` or the recipe sets. They are a value of the
/// subject (AnalysisSubject::chosen). Most are made by `settings_of` below or `request_row` (requested_study.h).
struct AnalysisSettings {
  std::string_view command = {};  ///< empty: the analysis has no settings
  /// Carries out the command; returns the analyses whose results it invalidates. Throws Error(bad_input) and then
  /// changes nothing.
  AnalysisSet (*choose)(AnalysisSubject& subject, const nlohmann::json& value) = nullptr;
  /// The same when a recipe that holds the command is opened, before anything is computed.
  void (*replay)(AnalysisSubject& subject, const nlohmann::json& value) = nullptr;
  /// The settings in force, as the recipe records them; null: it does not.
  nlohmann::json (*written)(const AnalysisSubject& subject) = nullptr;
  /// Back to those of a new run, when the window goes to a moment that another recipe describes; null: they stay.
  void (*reset)(AnalysisSubject& subject) = nullptr;
  /// The command starts the analysis, which does not run without it.
  bool is_request = false;
  /// The run that the command opens instead of changing settings; null: it never does. Throws Error(bad_input).
  std::optional<Recipe> (*opened)(const AnalysisSubject& subject, const nlohmann::json& value) = nullptr;
};

/// Settings that are one struct (core/io/field_table.h).
template <Analysis analysis, class Config, auto read = read_fields<Config>>
AnalysisSettings settings_of() {
  return {
      Config::command,
      [](AnalysisSubject& subject, const nlohmann::json& value) {
        subject.chosen<Config>() = read(value, subject.chosen<Config>());
        return set_of(analysis);
      },
      [](AnalysisSubject& subject, const nlohmann::json& value) { subject.chosen<Config>() = read(value, Config()); },
      [](const AnalysisSubject& subject) { return to_json(subject.chosen<Config>()); },
      [](AnalysisSubject& subject) { subject.chosen<Config>() = {}; }};
}

struct AnalysisTiming {
  AnalysisCost cost = AnalysisCost::piecewise;
  double min_interval = 0;  ///< seconds between two runs during training
  double weight = 3;        ///< relative share of the time for all requested analyses
};

struct AnalysisInfo : AnalysisTiming {
  Analysis analysis;
  std::string_view name;  ///< for messages: "influence"
  /// An AbsentAnalysis for a run without this one.
  std::unique_ptr<RunAnalysis> (*make)(AnalysisSubject& subject);
  /// The whole work; null: it does not grow with the model.
  ModelWork (*work)(const AnalysisSubject& subject) = nullptr;
  AnalysisSettings settings = {};
};

/// For `make`: an analysis of every run, and one of runs that read tokens.
template <class Form, auto... choice>
std::unique_ptr<RunAnalysis> make_of_any(AnalysisSubject& subject) {
  return std::make_unique<Form>(subject, choice...);
}
template <class Form, auto... choice>
std::unique_ptr<RunAnalysis> make_of_tokens(AnalysisSubject& subject) {
  return subject.observer ? make_of_any<Form, choice...>(subject) : make_of_any<AbsentAnalysis>(subject);
}

/// One row for each Analysis; a row comes after those whose results it reads.
std::span<const AnalysisInfo> analysis_table();
/// The row's index.
std::size_t index_of(Analysis analysis);
/// The settings that a command sets; null if it is no command of an analysis.
const AnalysisSettings* find_settings(std::string_view command);
inline const AnalysisInfo& info_of(Analysis analysis) { return analysis_table()[index_of(analysis)]; }

/// Seconds for one token in a pass, and for one step of the recurrent form.
struct Pace {
  double token = 0, step = 0;
};
/// Times one short pass and one step of the model itself.
Pace measure_pace(Trainer& trainer);
double seconds_of(const ModelWork& work, const Pace& pace);

/// The share of the work that runs without a request for a model with this many weights: some seconds on two cores.
/// Depends on the numbers alone, so it is the same on every machine. 0 if even the smallest piece is more.
double first_part(const ModelWork& work, std::int64_t parameters);

// For the `work` functions of rows.
constexpr double reverse = 3;            ///< a forward and a backward pass, in forward passes
constexpr double passes_of_a_step = 25;  ///< a step reads all weights for a few tokens
double length_of(const AnalysisSubject& subject);
double branches_of(const AnalysisSubject& subject);
/// Share of the branches up to the traced one, which a trace runs.
double depth_of_trace(const AnalysisSubject& subject);
double tokens_of_training(const AnalysisSubject& subject, double steps);

}  // namespace afterglow
