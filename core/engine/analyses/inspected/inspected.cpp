// When the inspected sequence is answered.
#include <optional>

#include "core/engine/analyses/inspected/inspected_view.h"
#include "core/engine/session/analysis_table.h"

namespace afterglow {
namespace {

/// The answers to the inspected sequence under the interventions. The accuracy on many sequences takes most of the
/// time, so the first piece shows the accuracy of the last complete run.
class InspectionAnalysis final : public StepAnalysis<InspectedView> {
 public:
  using StepAnalysis::StepAnalysis;
  AnalysisState state() const override {
    AnalysisState now = StepAnalysis::state();
    if (now.is_current() && accuracy_is_old_) now.phase = AnalysisPhase::computing;
    return now;
  }
  void advance(Budget budget) override {
    const bool is_known = accuracy_ && accuracy_step_ == of_->step();
    if (budget == Budget::piece && is_known) {
      look(accuracy_);
      accuracy_is_old_ = !of_->inspected->now().interventions.empty();
      return;
    }
    look(std::nullopt);
    accuracy_ = view_->accuracy_after;
    accuracy_step_ = of_->step();
    accuracy_is_old_ = false;
  }
  void publish(AnalysisResults& results) const override { results.inspected = view_; }
  void forget(std::int64_t) override {
    invalidate();
    of_->inspector->forget();
  }

 private:
  void look(std::optional<double> accuracy) {
    view_ = of_->inspector->inspect(of_->inspected->now(), of_->traced_part, of_->numbered().get(), accuracy);
  }
  std::optional<double> accuracy_;  // at `accuracy_step_`
  std::int64_t accuracy_step_ = -1;
  bool accuracy_is_old_ = false;
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
