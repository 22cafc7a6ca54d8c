// Interventions as analyses: short ones run at once, long ones in spare time.
#include "core/engine/session/causes_analyses.h"

#include "core/engine/causes/ablation_measurement.h"
#include "core/engine/causes/forces_measurement.h"
#include "core/engine/causes/logit_lens.h"
#include "core/engine/causes/patch_measurement.h"
#include "core/engine/causes/readout_measurement.h"
#include "core/engine/causes/transplant.h"
#include "core/engine/session/measured_analysis.h"

namespace afterglow {

template <>
inline constexpr bool rehearses_steps<ForcesMeasurement> = true;

namespace {

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
template <class View, View (*look)(Trainer&, const InspectionSetup&), auto result>
class PairAnalysis final : public RunAnalysis {
 public:
  explicit PairAnalysis(AnalysisSubject& of) : of_(&of) {}
  bool is_current() const override { return !is_stale_ && made_at() == of_->step(); }
  std::int64_t made_at() const override { return view_ ? view_->step : -1; }
  void update(const AnalysisResults&) override {
    is_stale_ = false;
    view_ = std::make_shared<const View>(look(*of_->evaluated, of_->inspected->now()));
  }
  void publish(AnalysisResults& results) const override { results.*result = view_; }
  void forget(std::int64_t) override { is_stale_ = true; }
  void invalidate() override { is_stale_ = true; }

 private:
  AnalysisSubject* of_;
  std::shared_ptr<const View> view_;
  bool is_stale_ = true;
};

template <class Kept, class... Choice>
std::unique_ptr<RunAnalysis> of_tokens(AnalysisSubject& subject, Choice... choice) {
  return subject.observer ? std::make_unique<Kept>(subject, choice...) : nullptr;
}

}  // namespace

std::unique_ptr<RunAnalysis> make_forces(AnalysisSubject& subject) {
  if (!subject.observer || subject.observer->first_ska() < 0) return nullptr;
  return std::make_unique<
      SpareTimeAnalysis<ForcesMeasurement, Analysis::forces, begin_forces, &AnalysisResults::forces>>(subject, false);
}
std::unique_ptr<RunAnalysis> make_patch(AnalysisSubject& subject) {
  return of_tokens<SpareTimeAnalysis<PatchMeasurement, Analysis::patch, begin_patch, &AnalysisResults::patch>>(subject,
                                                                                                               true);
}
std::unique_ptr<RunAnalysis> make_ablation(AnalysisSubject& subject) {
  return of_tokens<
      SpareTimeAnalysis<AblationMeasurement, Analysis::ablation, begin_ablation, &AnalysisResults::ablation>>(subject,
                                                                                                              false);
}
std::unique_ptr<RunAnalysis> make_logit_lens(AnalysisSubject& subject) {
  return of_tokens<PairAnalysis<LogitLensView, measure_logit_lens, &AnalysisResults::logit_lens>>(subject);
}
std::unique_ptr<RunAnalysis> make_readout(AnalysisSubject& subject) {
  return of_tokens<SpareTimeAnalysis<ReadoutMeasurement, Analysis::readout, begin_readout, &AnalysisResults::readout>>(
      subject, false);
}
std::unique_ptr<RunAnalysis> make_transplant(AnalysisSubject& subject) {
  return of_tokens<PairAnalysis<TransplantView, measure_transplant, &AnalysisResults::transplant>>(subject);
}

}  // namespace afterglow
