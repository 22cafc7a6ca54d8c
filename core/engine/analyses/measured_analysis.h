// Forms of analyses that a measurement on a copy of the weights, or one call, makes.
#pragma once
#include <functional>
#include <memory>
#include <type_traits>

#include "core/engine/session/analysis_table.h"

namespace afterglow {

/// Whether a measurement trains steps with the run's trainer when it begins, so that no step may be in flight. Later it
/// does not read the run.
template <class Measurement>
concept RehearsesSteps = requires(Measurement& measurement, std::function<void()> meanwhile) {
  measurement.advance(meanwhile);
};

/// During training a measurement is finished before the next one begins; a change of settings discards it. `begin`
/// starts it, `result` is the field that it fills. If only a part is requested, it pauses once that part is computed.
template <class Measurement, Analysis analysis, auto begin, auto result>
class MeasuredAnalysis : public RunAnalysis {
 public:
  explicit MeasuredAnalysis(AnalysisSubject& of) : of_(&of) {}
  AnalysisState state() const override {
    const auto found = newest();
    const bool is_going = measurement_ && measurement_->working() && !is_stale_ && !has_its_part();
    const bool is_current = is_of_now() && !is_stale_ && !is_going;
    return {is_going     ? AnalysisPhase::computing
            : is_current ? AnalysisPhase::current
                         : AnalysisPhase::waiting,
            found ? found->step : -1,
            is_current,
            is_urgent_,
            is_current || is_urgent_,
            is_going ? measurement_->share_done() : 0};
  }
  void advance(Budget) override {
    Trainer& trainer = RehearsesSteps<Measurement> ? of_->run->trainer() : *of_->evaluated;
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
    last_result_step_ = state().is_current() ? measurement_->step() : -1;
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
    if constexpr (RehearsesSteps<Measurement>) return measurement_->advance(of_->meanwhile);
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
template <class Measurement, Analysis analysis, auto begin, auto result>
class SpareTimeAnalysis : public MeasuredAnalysis<Measurement, analysis, begin, result> {
 public:
  /// `follows`: during training a new step restarts the first piece instead of finishing the old step's measurement.
  SpareTimeAnalysis(AnalysisSubject& of, bool follows)
      : MeasuredAnalysis<Measurement, analysis, begin, result>(of), follows_(follows) {}
  AnalysisState state() const override {
    AnalysisState now = MeasuredAnalysis<Measurement, analysis, begin, result>::state();
    now.is_answered = this->is_of_now() && !this->is_stale();
    now.is_urgent = this->is_stale() || !this->newest();
    now.has_news = true;
    return now;
  }
  void make_urgent() override {
    if (!state().is_answered) this->invalidate();
  }

 private:
  bool goes_on() const override { return this->is_of_now() || !follows_; }
  bool follows_;
};

/// A short analysis of the pair of sequences with the model as it is.
template <class View, View (*measurement)(Trainer&, const InspectionSetup&), auto result>
class PairAnalysis final : public LastingAnalysis<View> {
 public:
  using LastingAnalysis<View>::LastingAnalysis;
  void publish(AnalysisResults& results) const override { results.*result = this->view_; }

 private:
  void measure() override {
    this->view_ = std::make_shared<const View>(measurement(*this->of_->evaluated, this->of_->inspected->now()));
  }
};

}  // namespace afterglow
