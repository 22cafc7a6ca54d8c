// When the inspected sequence is answered.
#include "core/engine/analyses/inspected/inspected_view.h"
#include "core/engine/session/analysis_table.h"

namespace afterglow {
namespace {

/// The answers to the inspected sequence under the interventions. The accuracy on many sequences takes most of the
/// time, so a piece shows that of the last complete run, which may be of an earlier step.
class InspectionAnalysis final : public StepAnalysis<InspectedView> {
 public:
  using StepAnalysis::StepAnalysis;
  AnalysisState state() const override {
    AnalysisState now = StepAnalysis::state();
    if (now.is_current() && view_->accuracy_is_old) now.phase = AnalysisPhase::computing;
    return now;
  }
  void advance(Budget budget) override {
    const InspectionSetup& setup = of_->inspected->now();
    const bool is_known = counted_ && (counted_->step == of_->step() || !setup.interventions.empty());
    const InspectedView* const counted = budget == Budget::piece && is_known ? counted_.get() : nullptr;
    view_ = of_->inspector->inspect(setup, of_->traced_part, of_->numbered().get(), counted);
    if (!counted) counted_ = view_;
  }
  void publish(AnalysisResults& results) const override { results.inspected = view_; }
  void forget(std::int64_t) override {
    invalidate();
    of_->inspector->forget();
  }

 private:
  std::shared_ptr<const InspectedView> counted_;  // whose accuracies were measured
};

}  // namespace

AnalysisInfo inspected_row() {
  // Runs the inspected sequence and the held-out ones, with and without interventions.
  const auto work = [](const AnalysisSubject& subject) -> ModelWork {
    const bool is_edited = subject.inspected && !subject.inspected->now().interventions.empty();
    const double held_out = static_cast<double>(held_out_sequences(subject.run->trainer())) * length_of(subject);
    return {(is_edited ? 2 : 1) * (length_of(subject) + held_out), 0, 0};
  };
  return {{AnalysisCost::interactive, 0.25, 1}, Analysis::inspected, "probe", make_of_tokens<InspectionAnalysis>, work};
}

}  // namespace afterglow
