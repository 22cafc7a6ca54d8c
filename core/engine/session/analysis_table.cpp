// The analyses, one class each, and their rows.
#include "core/engine/session/analysis_table.h"

#include <algorithm>
#include <array>
#include <deque>

#include "core/engine/inspection/forecast_observer.h"
#include "core/engine/observation/depth_view.h"
#include "core/engine/observation/forecast_view.h"
#include "core/engine/observation/memory_view.h"
#include "core/engine/observation/theory_view.h"
#include "core/engine/session/analysis_work.h"
#include "core/engine/session/causes_analyses.h"
#include "core/engine/session/measured_analysis.h"
#include "core/engine/session/requested_analysis.h"
#include "core/engine/studies/layer_costs.h"

namespace afterglow {

namespace {

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
    inspected_ = of_->inspector->look(of_->inspected->now(), of_->traced_part, of_->numbered().get());
    accuracy_ = inspected_->accuracy_after;
    accuracy_step_ = of_->step();
    accuracy_is_old_ = false;
  }
  void advance(const AnalysisResults& found) override {
    if (!accuracy_ || accuracy_step_ != of_->step()) return update(found);
    inspected_ = of_->inspector->look(of_->inspected->now(), of_->traced_part, of_->numbered().get(), accuracy_);
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

template <class OfTokens>
std::unique_ptr<RunAnalysis> make(AnalysisSubject& subject) {
  return reads_tokens(subject) ? std::make_unique<OfTokens>(subject) : nullptr;
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
                 make_transplant},
    AnalysisInfo{Analysis::solvers, "solvers", AnalysisCost::slow, 0.5, 1, nullptr, make<SolverAnalysis>},
    AnalysisInfo{Analysis::theory, "theory", AnalysisCost::slow, 1, 1, work_of_theory, make<TheoryAnalysis>},
    AnalysisInfo{Analysis::logit_lens, "logit lens", AnalysisCost::slow, 0.5, 1, work_of_logit_lens, make_logit_lens},
    AnalysisInfo{Analysis::influence, "influence", AnalysisCost::piecewise, 0, 3, work_of_influence,
                 make<InfluenceAnalysis>},
    AnalysisInfo{Analysis::race, "race", AnalysisCost::piecewise, 0, 3, work_of_race, make<RaceAnalysis>},
    AnalysisInfo{Analysis::forces, "eigenvalue forces", AnalysisCost::piecewise, 0.25, 3, nullptr, make_forces},
    AnalysisInfo{Analysis::patch, "patch grid", AnalysisCost::piecewise, 0, 3, work_of_patch, make_patch},
    AnalysisInfo{Analysis::ablation, "ablation", AnalysisCost::piecewise, 0, 3, work_of_ablation, make_ablation},
    AnalysisInfo{Analysis::readout, "read-out", AnalysisCost::piecewise, 0, 3, work_of_readout, make_readout},
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
