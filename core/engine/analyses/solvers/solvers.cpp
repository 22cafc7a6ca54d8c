// When the solvers run, and the problem that the user made.
#include <memory>
#include <optional>

#include "core/engine/inspection/solver_problems.h"
#include "core/engine/session/analysis_table.h"

namespace afterglow {
namespace {

using ChosenProblem = std::optional<MadeProblem>;

/// The solvers on the ridge systems of the chosen layer and on the one that the user made.
class SolverAnalysis final : public StepAnalysis<SolverView> {
 public:
  using StepAnalysis::StepAnalysis;
  void advance(Budget) override {
    part_ = of_->traced_part;
    take(*of_->observer->solvers(part_));
  }
  void publish(AnalysisResults& results) const override { results.solvers = view_; }
  void invalidate() override {
    if (part_ != of_->traced_part) view_.reset();
    if (view_) take(*view_);
  }
  void forget(std::int64_t) override { view_.reset(); }

 private:
  void take(const SolverView& view) {
    view_ = std::make_shared<const SolverView>(with_made(view, of_->chosen<ChosenProblem>()));
  }
  int part_ = -1;
};

}  // namespace

AnalysisInfo solvers_row() {
  AnalysisSettings settings{"solver_problem"};
  settings.choose = [](AnalysisSubject& subject, const nlohmann::json& value) {
    subject.chosen<ChosenProblem>() = parse_made_problem(value);
    return set_of(Analysis::solvers);
  };
  settings.reset = [](AnalysisSubject& subject) { subject.chosen<ChosenProblem>().reset(); };
  return {{AnalysisCost::slow, 0.5, 1},   Analysis::solvers, "solvers",
          make_of_tokens<SolverAnalysis>, nullptr,           settings};
}

}  // namespace afterglow
