// When the theorems are compared with measurements.
#include <memory>

#include "core/engine/analyses/theory/theory_view.h"
#include "core/engine/session/analysis_table.h"

namespace afterglow {
namespace {

/// The theorems for one head, and the gradient by depth. The last result stays with the response to interventions until
/// a new one is computed.
class TheoryAnalysis final : public LastingAnalysis<DepthView> {
 public:
  using LastingAnalysis::LastingAnalysis;
  void publish(AnalysisResults& results) const override {
    if (!results.inspected) return;
    results.theory = theory_;
    results.depth = view_;
  }

 private:
  void measure() override {
    theory_ = of_->inspector->theory(of_->inspected->now(), of_->theory_part, of_->theory_head);
    view_ = of_->inspector->depth(of_->inspected->now());
  }
  std::shared_ptr<const TheoryView> theory_;
};

}  // namespace

AnalysisInfo theory_row() {
  // Six rounds of one backward and two forward passes in each branch.
  const auto work = [](const AnalysisSubject& subject) -> ModelWork {
    constexpr double rounds = 6;
    return {length_of(subject) * (1 + reverse + rounds * (reverse + 2)), 0, 1};
  };
  return {{AnalysisCost::slow, 1, 1}, Analysis::theory, "theory", make_of_tokens<TheoryAnalysis>, work};
}

}  // namespace afterglow
