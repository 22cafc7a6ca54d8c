// The analyses, one class each, and their rows.
#include "core/engine/session/analysis_table.h"

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/engine/analyses/ablation/ablation_measurement.h"
#include "core/engine/analyses/costs/layer_costs.h"
#include "core/engine/analyses/forces/forces_measurement.h"
#include "core/engine/analyses/forecast/forecast_observer.h"
#include "core/engine/analyses/forecast/forecast_view.h"
#include "core/engine/analyses/logit_lens/logit_lens.h"
#include "core/engine/analyses/patch/patch_measurement.h"
#include "core/engine/analyses/readout/readout_measurement.h"
#include "core/engine/analyses/theory/depth_view.h"
#include "core/engine/analyses/theory/theory_view.h"
#include "core/engine/analyses/transplant/transplant.h"
#include "core/engine/observation/memory_view.h"
#include "core/engine/session/analysis_work.h"

namespace afterglow {

namespace {

/// Whether a measurement trains steps with the run's trainer when it begins, so that no step may be in flight. Later it
/// does not read the run.
template <class Measurement>
constexpr bool rehearses_steps = false;
template <>
constexpr bool rehearses_steps<ForcesMeasurement> = true;

/// During training a measurement is finished before the next one begins; a change of settings discards it. `begin`
/// starts it, `result` is the field that it fills. If only a part is requested, it pauses once that part is computed.
template <class Measurement, Analysis analysis, void (*begin)(Measurement&, const AnalysisSubject&), auto result>
class MeasuredAnalysis : public PiecewiseAnalysis {
 public:
  explicit MeasuredAnalysis(AnalysisSubject& of) : of_(&of) {}
  bool is_current() const override {
    return is_of_now() && !is_stale_ && (!measurement_ || !measurement_->working() || has_its_part());
  }
  bool is_urgent() const override { return is_urgent_; }
  std::int64_t made_at() const override {
    const auto found = newest();
    return found ? found->step : -1;
  }
  void advance(const AnalysisResults&) override {
    Trainer& trainer = rehearses_steps<Measurement> ? of_->run->trainer() : *of_->evaluated;
    if (!measurement_) measurement_ = std::make_unique<Measurement>(of_->run->recipe().model, trainer);
    if (!is_stale_ && measurement_->working() && goes_on()) {
      if (!advance_measurement() || has_its_part()) is_urgent_ = false;
      return;
    }
    is_stale_ = false;
    begin(*measurement_, *of_);
  }
  void publish(AnalysisResults& results) const override { results.*result = newest(); }
  void forget(std::int64_t) override { is_stale_ = true; }
  void invalidate() override { is_stale_ = is_urgent_ = true; }
  void make_urgent() override {
    if (newest() && !is_of_now()) invalidate();
  }
  /// An unfinished measurement starts again when a panel shows it.
  void release() override {
    if (!measurement_) return;
    last_result_step_ = is_current() ? measurement_->step() : -1;
    last_result_ = measurement_->newest();
    measurement_.reset();
  }

 protected:
  bool is_stale() const { return is_stale_; }
  bool is_of_now() const { return (measurement_ ? measurement_->step() : last_result_step_) == of_->step(); }
  const Measurement& measurement() const { return *measurement_; }
  auto newest() const { return measurement_ ? measurement_->newest() : last_result_; }
  /// Whether to finish a running measurement of an earlier step.
  virtual bool goes_on() const { return true; }

 private:
  bool advance_measurement() {
    if constexpr (rehearses_steps<Measurement>) return measurement_->advance(of_->meanwhile);
    return measurement_->advance();
  }
  bool has_its_part() const {
    return of_->part_of(analysis) < 1 && measurement_->share_done() >= of_->part_of(analysis);
  }

  AnalysisSubject* of_;
  std::unique_ptr<Measurement> measurement_;                       // created on first use
  std::decay_t<decltype(AnalysisResults{}.*result)> last_result_;  // of a measurement that was released
  std::int64_t last_result_step_ = -1;                             // the step of that result
  bool is_stale_ = true;  // weights, settings or sequences have changed since it began
  bool is_urgent_ = true;
};

/// A measurement whose parts are shown as they come. Only the first piece is urgent, or all of the first measurement if
/// it shows nothing before its end.
template <class Measurement, Analysis analysis, void (*begin)(Measurement&, const AnalysisSubject&), auto result>
class SpareTimeAnalysis : public MeasuredAnalysis<Measurement, analysis, begin, result> {
 public:
  /// `follows`: during training a new step restarts the first piece instead of finishing the old step's measurement.
  SpareTimeAnalysis(AnalysisSubject& of, bool follows)
      : MeasuredAnalysis<Measurement, analysis, begin, result>(of), follows_(follows) {}
  bool is_answered() const override { return this->is_of_now() && !this->is_stale(); }
  bool is_urgent() const override { return this->is_stale() || !this->newest(); }
  bool has_news() const override { return true; }
  void make_urgent() override {
    if (!is_answered()) this->invalidate();
  }

 private:
  bool goes_on() const override { return this->is_of_now() || !follows_; }
  bool follows_;
};

/// After a request the study is created from `config` as soon as the run has reached its steps. It belongs to a range
/// of the past, not to a step, and is dropped when that past changes.
template <class Study, auto of_subject, auto result>
class RequestedAnalysis final : public RunAnalysis {
 public:
  explicit RequestedAnalysis(AnalysisSubject& of) : of_(&of) {}
  bool is_current() const override { return belongs() && asked().study->is_complete(); }
  bool has_work() const override {
    if (belongs()) return !asked().study->is_complete();
    return asked().config && of_->run->latest_step() >= asked().config->needed_step();
  }
  std::int64_t made_at() const override { return -1; }
  bool has_news() const override { return has_news_; }
  void advance(const AnalysisResults&) override {
    const auto before = belongs() ? asked().study->view() : nullptr;
    if (before) {
      asked().study->advance(of_->run->trainer().backend());
    } else {
      begin();
    }
    has_news_ = asked().study->view() != before;
  }
  void update(const AnalysisResults& found) override {
    while (has_work()) advance(found);
  }
  void publish(AnalysisResults& results) const override {
    if (belongs()) results.*result = asked().study->view();
  }
  void forget(std::int64_t) override { invalidate(); }
  void invalidate() override { belongs_.reset(); }

 private:
  auto& asked() const { return of_->*of_subject; }
  /// Whether the run still has the past that is studied. Compares whole recipes, hence only once after each change.
  bool belongs() const {
    if (!belongs_) belongs_ = asked().study && asked().study->is_of(of_->run->recipe());
    return *belongs_;
  }
  /// A request that cannot be carried out is dropped.
  void begin() {
    const auto config = *std::exchange(asked().config, std::nullopt);
    asked().study = std::make_unique<Study>(*of_->run, config);
    asked().config = asked().study->config();
    invalidate();
  }

  AnalysisSubject* of_;
  mutable std::optional<bool> belongs_;  // nothing: not compared since the last change
  bool has_news_ = false;
};

constexpr std::size_t spectrum_history_length = 60;

/// The present spectra, and those of the steps at which modes are numbered, whichever page the window shows.
class SpectraAnalysis final : public RunAnalysis {
 public:
  explicit SpectraAnalysis(AnalysisSubject& of) : of_(&of) {}
  bool is_current() const override { return made_at() == of_->step(); }
  std::int64_t made_at() const override { return spectra_ ? spectra_->step : -1; }
  void update(const AnalysisResults&) override {
    spectra_ = of_->recorder->spectra(of_->run->numbered_modes(of_->step()).get());
  }
  void publish(AnalysisResults& results) const override {
    results.spectra = spectra_;
    const auto end = past_end();
    results.spectrum_history.assign(history_.begin(), end);
    if (spectra_ && (end == history_.begin() || (*std::prev(end))->step < spectra_->step))
      results.spectrum_history.push_back(spectra_);
  }
  void forget(std::int64_t after) override {
    while (!history_.empty() && history_.back()->step > after) history_.pop_back();
    spectra_.reset();
  }
  void invalidate() override { forget(-1); }
  // Keeps what was recorded before a rewind.
  void after_step() override {
    std::shared_ptr<const Spectra> reached = of_->run->numbered_modes(of_->step());
    if (!reached || reached->step != of_->step()) return;
    const auto end = past_end();
    if (end != history_.begin() && (*std::prev(end))->step == of_->step()) return;
    const InspectionSetup& asked = of_->inspected->now();
    const bool is_own_sequence = asked.index == 0 && asked.task.empty() && asked.tokens.empty();
    if (!is_own_sequence) reached = of_->recorder->spectra(reached.get());
    history_.insert(end, std::move(reached));
    if (history_.size() > spectrum_history_length) history_.pop_front();
  }

 private:
  using Entries = std::deque<std::shared_ptr<const Spectra>>;
  /// After the last entry at or before the present step.
  Entries::const_iterator past_end() const {
    return std::ranges::upper_bound(history_, of_->step(), {}, [](const auto& entry) { return entry->step; });
  }
  AnalysisSubject* of_;
  Entries history_;
  std::shared_ptr<const Spectra> spectra_;
};

/// The trajectory and its memory, published by both the trace and the forecast.
class PathAnalysis : public RunAnalysis {
 public:
  void publish(AnalysisResults& results) const override {
    results.trajectory = trajectory_;
    results.memory = memory_;
  }
  void forget(std::int64_t) override {
    invalidate();
    trajectory_.reset();
    memory_.reset();
  }

 protected:
  void take(std::shared_ptr<const TrajectoryView> trajectory, std::shared_ptr<const MemoryView> memory) {
    trajectory_ = std::move(trajectory);
    memory_ = std::move(memory);
  }

 private:
  std::shared_ptr<const TrajectoryView> trajectory_;
  std::shared_ptr<const MemoryView> memory_;
};

/// The recurrent form of the chosen layer with its token weights.
class TraceAnalysis final : public PathAnalysis {
 public:
  explicit TraceAnalysis(AnalysisSubject& of) : of_(&of) {}
  bool is_current() const override { return made_at() == of_->step(); }
  std::int64_t made_at() const override { return trace_ ? trace_->step : -1; }
  void update(const AnalysisResults&) override {
    trace_ = of_->observer->trace(of_->traced_part, of_->inspected->now().scale_kept_behind, of_->numbered().get());
    token_weights_ = of_->observer->token_weights(of_->traced_part);
    const bool has_memory = of_->run->trainer().model().memory() != nullptr;
    take(of_->run->trajectory().view(has_memory ? "pooled summary of a batch" : "mean last state of a batch's answers",
                                     of_->step()),
         of_->observer->memory());
  }
  void publish(AnalysisResults& results) const override {
    PathAnalysis::publish(results);
    results.trace = trace_;
    results.token_weights = token_weights_;
  }
  void invalidate() override {
    trace_.reset();
    token_weights_.reset();
  }

 private:
  AnalysisSubject* of_;
  std::shared_ptr<const Trace> trace_;
  std::shared_ptr<const TokenWeights> token_weights_;
};

/// A forecaster's replacement for the trace: its forecasts and those of compared runs.
class ForecastAnalysis final : public PathAnalysis {
 public:
  explicit ForecastAnalysis(AnalysisSubject& of) : of_(&of) {}
  bool is_current() const override { return made_at() == of_->step(); }
  std::int64_t made_at() const override { return forecast_ ? forecast_->step : -1; }
  void update(const AnalysisResults&) override {
    const auto window = static_cast<std::int64_t>(of_->inspected->now().index);
    auto forecast = std::make_shared<ForecastView>(*view_forecast(of_->run->trainer(), window));
    of_->ensemble.compare(*forecast, of_->run->trainer(), window);
    take(of_->run->trajectory().view("pooled summary of a batch", of_->step()), forecast->memory);
    forecast_ = std::move(forecast);
  }
  void publish(AnalysisResults& results) const override {
    PathAnalysis::publish(results);
    results.forecast = forecast_;
  }
  void invalidate() override { forecast_.reset(); }

 private:
  AnalysisSubject* of_;
  std::shared_ptr<const ForecastView> forecast_;
};

/// The answers to the inspected sequence under the interventions. The accuracy on many sequences takes most of the
/// time, so the first piece shows the accuracy of the last complete run.
class InspectionAnalysis final : public RunAnalysis {
 public:
  explicit InspectionAnalysis(AnalysisSubject& of) : of_(&of) {}
  bool is_current() const override { return is_answered() && !accuracy_is_old_; }
  bool is_answered() const override { return made_at() == of_->step(); }
  std::int64_t made_at() const override { return inspected_ ? inspected_->step : -1; }
  void update(const AnalysisResults&) override {
    inspected_ = of_->inspector->inspect(of_->inspected->now(), of_->traced_part, of_->numbered().get());
    accuracy_ = inspected_->accuracy_after;
    accuracy_step_ = of_->step();
    accuracy_is_old_ = false;
  }
  void advance(const AnalysisResults& found) override {
    if (!accuracy_ || accuracy_step_ != of_->step()) return update(found);
    inspected_ = of_->inspector->inspect(of_->inspected->now(), of_->traced_part, of_->numbered().get(), accuracy_);
    accuracy_is_old_ = !of_->inspected->now().interventions.empty();
  }
  void publish(AnalysisResults& results) const override { results.inspected = inspected_; }
  void forget(std::int64_t) override {
    invalidate();
    of_->inspector->forget();
  }
  void invalidate() override { inspected_.reset(); }

 private:
  AnalysisSubject* of_;
  std::shared_ptr<const InspectedView> inspected_;
  std::optional<double> accuracy_;  // at `accuracy_step_`
  std::int64_t accuracy_step_ = -1;
  bool accuracy_is_old_ = false;
};

/// The solvers on the ridge systems of the chosen layer and on the one that the user made.
class SolverAnalysis final : public RunAnalysis {
 public:
  explicit SolverAnalysis(AnalysisSubject& of) : of_(&of) {}
  bool is_current() const override { return made_at() == of_->step(); }
  std::int64_t made_at() const override { return solvers_ ? solvers_->step : -1; }
  void update(const AnalysisResults&) override {
    part_ = of_->traced_part;
    take(*of_->observer->solvers(part_));
  }
  void publish(AnalysisResults& results) const override { results.solvers = solvers_; }
  void forget(std::int64_t) override { solvers_.reset(); }
  void invalidate() override {
    if (part_ != of_->traced_part) solvers_.reset();
    if (solvers_) take(*solvers_);
  }

 private:
  void take(const SolverView& view) {
    solvers_ = std::make_shared<const SolverView>(with_made(view, of_->made_problem));
  }
  AnalysisSubject* of_;
  int part_ = -1;
  std::shared_ptr<const SolverView> solvers_;
};

/// The theorems for one head, and the gradient by depth. The last result stays with the response to interventions until
/// a new one is computed.
class TheoryAnalysis final : public RunAnalysis {
 public:
  explicit TheoryAnalysis(AnalysisSubject& of) : of_(&of) {}
  bool is_current() const override { return !is_stale_ && made_at() == of_->step(); }
  std::int64_t made_at() const override { return depth_ ? depth_->step : -1; }
  void update(const AnalysisResults&) override {
    is_stale_ = false;
    theory_ = of_->inspector->theory(of_->inspected->now(), of_->theory_part, of_->theory_head);
    depth_ = of_->inspector->depth(of_->inspected->now());
  }
  void publish(AnalysisResults& results) const override {
    if (!results.inspected) return;
    results.theory = theory_;
    results.depth = depth_;
  }
  void forget(std::int64_t) override { is_stale_ = true; }
  void invalidate() override { is_stale_ = true; }

 private:
  AnalysisSubject* of_;
  std::shared_ptr<const TheoryView> theory_;
  std::shared_ptr<const DepthView> depth_;
  bool is_stale_ = true;
};

void begin_forces(ForcesMeasurement& measurement, const AnalysisSubject& subject) {
  measurement.begin(*subject.run, subject.observer->example());
}
void begin_patch(PatchMeasurement& measurement, const AnalysisSubject& subject) {
  measurement.begin(subject.inspected->now());
}
void begin_ablation(AblationMeasurement& measurement, const AnalysisSubject& subject) {
  measurement.begin(subject.numbered());
}
void begin_readout(ReadoutMeasurement& measurement, const AnalysisSubject& subject) {
  measurement.begin(subject.inspected->now(), subject.traced_part);
}

/// A short analysis of the pair of sequences with the model as it is.
template <class View, View (*measure)(Trainer&, const InspectionSetup&), auto result>
class PairAnalysis final : public RunAnalysis {
 public:
  explicit PairAnalysis(AnalysisSubject& of) : of_(&of) {}
  bool is_current() const override { return !is_stale_ && made_at() == of_->step(); }
  std::int64_t made_at() const override { return view_ ? view_->step : -1; }
  void update(const AnalysisResults&) override {
    is_stale_ = false;
    view_ = std::make_shared<const View>(measure(*of_->evaluated, of_->inspected->now()));
  }
  void publish(AnalysisResults& results) const override { results.*result = view_; }
  void forget(std::int64_t) override { is_stale_ = true; }
  void invalidate() override { is_stale_ = true; }

 private:
  AnalysisSubject* of_;
  std::shared_ptr<const View> view_;
  bool is_stale_ = true;
};

using PatchAnalysis = SpareTimeAnalysis<PatchMeasurement, Analysis::patch, begin_patch, &AnalysisResults::patch>;
using AblationAnalysis =
    SpareTimeAnalysis<AblationMeasurement, Analysis::ablation, begin_ablation, &AnalysisResults::ablation>;
using ReadoutAnalysis =
    SpareTimeAnalysis<ReadoutMeasurement, Analysis::readout, begin_readout, &AnalysisResults::readout>;
using ForcesAnalysis = SpareTimeAnalysis<ForcesMeasurement, Analysis::forces, begin_forces, &AnalysisResults::forces>;
using LensAnalysis = PairAnalysis<LogitLensView, measure_logit_lens, &AnalysisResults::logit_lens>;
using TransplantAnalysis = PairAnalysis<TransplantView, measure_transplant, &AnalysisResults::transplant>;

void begin_influence(InfluenceMeasurement& measurement, const AnalysisSubject& subject) {
  measurement.config = subject.influence;
  measurement.begin(subject.inspected->now().index);
}
void begin_race(RaceMeasurement& measurement, const AnalysisSubject& subject) {
  measurement.begin(subject.influence.race, subject.part_of(Analysis::race) < 1);
}
using InfluenceAnalysis =
    MeasuredAnalysis<InfluenceMeasurement, Analysis::influence, begin_influence, &AnalysisResults::influence>;
using RaceAnalysis = MeasuredAnalysis<RaceMeasurement, Analysis::race, begin_race, &AnalysisResults::race>;

void begin_accuracy(AccuracyMeasurement& measurement, const AnalysisSubject& subject) {
  measurement.begin(subject.run->recipe().task, subject.accuracy);
}
/// During training a cell grid of one step is finished before the next step's begins.
class AccuracyAnalysis final
    : public SpareTimeAnalysis<AccuracyMeasurement, Analysis::accuracy, begin_accuracy, &AnalysisResults::accuracy> {
 public:
  explicit AccuracyAnalysis(AnalysisSubject& of) : SpareTimeAnalysis(of, true) {}

 private:
  bool goes_on() const override { return is_of_now() || !measurement().has_overview(); }
};

bool reads_tokens(const AnalysisSubject& subject) { return subject.observer != nullptr; }

/// Other trainings in spare time. The map belongs to no step and stays when the user opens one of its runs.
class PhaseMapAnalysis final : public PiecewiseAnalysis {
 public:
  explicit PhaseMapAnalysis(AnalysisSubject& of) : of_(&of) {}
  bool is_current() const override { return of_->map && (of_->map->is_complete() || has_its_part()); }
  std::int64_t made_at() const override { return -1; }  // not tied to a step
  bool has_news() const override { return has_news_; }
  void advance(const AnalysisResults&) override {
    const std::shared_ptr<const PhaseMapView> before = of_->map ? of_->map->view() : nullptr;
    if (of_->map) {
      of_->map->advance(of_->run->trainer().backend());
    } else {
      of_->map = std::make_shared<PhaseMap>(of_->run->recipe(), of_->map_config);
    }
    has_news_ = of_->map->view() != before;
  }
  void publish(AnalysisResults& results) const override {
    if (of_->map) results.phase_map = of_->map->view();
  }
  void forget(std::int64_t) override {}
  void invalidate() override {}
  void release() override {
    if (of_->map) of_->map->drop_present();
  }

 private:
  bool has_its_part() const {
    const SweepView& sweep = of_->map->view()->sweep;
    const double part = of_->part_of(Analysis::phase_map);
    return part < 1 && static_cast<double>(sweep.results.size()) >= part * static_cast<double>(size_of(sweep.axes));
  }
  AnalysisSubject* of_;
  bool has_news_ = false;
};

using BlameAnalysis = RequestedAnalysis<Blame, &AnalysisSubject::blame, &AnalysisResults::blame>;
using BisectAnalysis = RequestedAnalysis<Bisect, &AnalysisSubject::bisect, &AnalysisResults::bisect>;
using OverTrainingAnalysis =
    RequestedAnalysis<OverTraining, &AnalysisSubject::over_training, &AnalysisResults::over_training>;
using MicroscopeAnalysis = RequestedAnalysis<Microscope, &AnalysisSubject::microscope, &AnalysisResults::microscope>;

template <class OfAnyRun>
std::unique_ptr<RunAnalysis> make_of_any(AnalysisSubject& subject) {
  return std::make_unique<OfAnyRun>(subject);
}

/// A network of its own, independent of the run's model and step.
class RetrievalAnalysis final : public PiecewiseAnalysis {
 public:
  explicit RetrievalAnalysis(AnalysisSubject& of) : of_(&of) {}
  bool is_current() const override { return view_ && !experiment_ && measured_ == of_->influence.retrieval; }
  bool is_answered() const override { return view_ != nullptr; }
  bool is_urgent() const override { return is_urgent_; }
  std::int64_t made_at() const override { return -1; }  // not tied to a step
  void advance(const AnalysisResults&) override {
    if (!experiment_ || measured_ != of_->influence.retrieval) {
      measured_ = of_->influence.retrieval;
      experiment_ = std::make_unique<RetrievalExperiment>(measured_);
    } else if (!experiment_->advance()) {
      view_ = experiment_->view();
      experiment_.reset();
      is_urgent_ = false;
    }
  }
  void publish(AnalysisResults& results) const override { results.retrieval = view_; }
  void forget(std::int64_t) override {}
  void invalidate() override { is_urgent_ = true; }

 private:
  AnalysisSubject* of_;
  RetrievalConfig measured_;
  std::unique_ptr<RetrievalExperiment> experiment_;  // while it runs
  std::shared_ptr<const RetrievalView> view_;
  bool is_urgent_ = true;
};

/// Costs of mixers on this machine: measured once, independent of the run.
class CostAnalysis final : public PiecewiseAnalysis {
 public:
  explicit CostAnalysis(AnalysisSubject&) {}
  bool is_current() const override { return measurement_.is_complete(); }
  bool is_answered() const override { return measurement_.share_done() > 0; }
  std::int64_t made_at() const override { return -1; }  // not tied to a step
  bool has_news() const override { return has_news_; }
  void advance(const AnalysisResults&) override {
    const std::shared_ptr<const CostView> before = measurement_.view();
    measurement_.advance();
    has_news_ = measurement_.view() != before;
  }
  void publish(AnalysisResults& results) const override { results.costs = measurement_.view(); }
  void forget(std::int64_t) override {}
  void invalidate() override {}

 private:
  CostMeasurement measurement_;
  bool has_news_ = false;
};

template <class OfTokens, auto... choice>
std::unique_ptr<RunAnalysis> make(AnalysisSubject& subject) {
  return reads_tokens(subject) ? std::make_unique<OfTokens>(subject, choice...) : nullptr;
}

std::unique_ptr<RunAnalysis> make_forces(AnalysisSubject& subject) {
  const bool has_ridge_systems = reads_tokens(subject) && subject.observer->first_ska() >= 0;
  return has_ridge_systems ? std::make_unique<ForcesAnalysis>(subject, false) : nullptr;
}

std::unique_ptr<RunAnalysis> make_trace(AnalysisSubject& subject) {
  if (reads_tokens(subject)) return std::make_unique<TraceAnalysis>(subject);
  return std::make_unique<ForecastAnalysis>(subject);
}

constexpr std::array table{
    AnalysisInfo{Analysis::spectra, "spectra", AnalysisCost::quick, 1.0 / 30, 1, nullptr, make<SpectraAnalysis>},
    AnalysisInfo{Analysis::trace, "trace", AnalysisCost::quick, 0.25, 1, nullptr, make_trace},
    AnalysisInfo{Analysis::inspected, "probe", AnalysisCost::interactive, 0.25, 1, work_of_inspection,
                 make<InspectionAnalysis>},
    AnalysisInfo{Analysis::transplant, "transplant", AnalysisCost::interactive, 0.5, 1, work_of_transplant,
                 make<TransplantAnalysis>},
    AnalysisInfo{Analysis::solvers, "solvers", AnalysisCost::slow, 0.5, 1, nullptr, make<SolverAnalysis>},
    AnalysisInfo{Analysis::theory, "theory", AnalysisCost::slow, 1, 1, work_of_theory, make<TheoryAnalysis>},
    AnalysisInfo{Analysis::logit_lens, "logit lens", AnalysisCost::slow, 0.5, 1, work_of_logit_lens,
                 make<LensAnalysis>},
    AnalysisInfo{Analysis::influence, "influence", AnalysisCost::piecewise, 0, 3, work_of_influence,
                 make<InfluenceAnalysis>},
    AnalysisInfo{Analysis::race, "race", AnalysisCost::piecewise, 0, 3, work_of_race, make<RaceAnalysis>},
    AnalysisInfo{Analysis::forces, "eigenvalue forces", AnalysisCost::piecewise, 0.25, 3, nullptr, make_forces},
    AnalysisInfo{Analysis::patch, "patch grid", AnalysisCost::piecewise, 0, 3, work_of_patch,
                 make<PatchAnalysis, true>},
    AnalysisInfo{Analysis::ablation, "ablation", AnalysisCost::piecewise, 0, 3, work_of_ablation,
                 make<AblationAnalysis, false>},
    AnalysisInfo{Analysis::readout, "read-out", AnalysisCost::piecewise, 0, 3, work_of_readout,
                 make<ReadoutAnalysis, false>},
    AnalysisInfo{Analysis::accuracy, "accuracy grid", AnalysisCost::piecewise, 0, 3, work_of_accuracy,
                 make<AccuracyAnalysis>},
    AnalysisInfo{Analysis::blame, "blame", AnalysisCost::piecewise, 0, 3, work_of_blame, make_of_any<BlameAnalysis>},
    AnalysisInfo{Analysis::microscope, "microscope", AnalysisCost::piecewise, 0, 3, work_of_microscope,
                 make_of_any<MicroscopeAnalysis>},
    AnalysisInfo{Analysis::bisect, "bisect", AnalysisCost::piecewise, 0, 3, work_of_bisect,
                 make_of_any<BisectAnalysis>},
    AnalysisInfo{Analysis::over_training, "over training", AnalysisCost::piecewise, 0, 3, work_of_over_training,
                 make_of_any<OverTrainingAnalysis>},
    AnalysisInfo{Analysis::retrieval, "retrieval", AnalysisCost::piecewise, 0, 3, nullptr,
                 make_of_any<RetrievalAnalysis>},
    AnalysisInfo{Analysis::costs, "costs", AnalysisCost::piecewise, 0, 3, nullptr, make_of_any<CostAnalysis>},
    AnalysisInfo{Analysis::phase_map, "phase map", AnalysisCost::piecewise, 0, 3, work_of_phase_map,
                 make_of_any<PhaseMapAnalysis>},
};

}  // namespace

std::span<const AnalysisInfo> analysis_table() { return table; }

std::size_t index_of(Analysis analysis) {
  return static_cast<std::size_t>(std::ranges::find(table, analysis, &AnalysisInfo::analysis) - table.begin());
}

}  // namespace afterglow
