// Bisect over frozen parts: at which step does a condition begin to hold, and which part must learn first? Repeats the
// training with one part frozen at a time, each until its condition holds.
#include <memory>
#include <string>

#include "core/engine/analyses/requested_study.h"
#include "core/engine/analyses/studies/studies_view.h"
#include "core/engine/session/analysed_run.h"
#include "core/engine/session/stop_condition.h"
#include "core/engine/sweeps/recipe_run.h"
#include "core/io/error.h"

namespace afterglow {
namespace {

struct BisectConfig {
  std::string condition = "held_out_accuracy > 0.5";  ///< as in `stop_when`
  std::int64_t until = 0;                             ///< last step of each repetition; 0: the recipe's
  static constexpr const char* command = "bisect";
  static constexpr ConfigField<BisectConfig> fields[] = {{"condition", &BisectConfig::condition},
                                                         {"until", &BisectConfig::until, 0, max_steps}};
};

/// What a condition needs is made for the very step that it is judged at.
StopCondition::MeasureFunction measure_function(AnalysedRun& run) {
  return [&run](AnalysisSet analyses) { return run.observe(analyses); };
}

class Bisect : public Study<BisectConfig, BisectView> {
 public:
  /// Repeats the run from its oldest saved state. Throws Error(bad_input) if the last step is not after that state.
  Bisect(const TrainingRun& run, BisectConfig config) : Study(std::move(config)) {
    start_ = *run.kept_snapshot(run.oldest_step());
    start_.recipe = training_of(start_.recipe);
    frozen_.emplace_back("", "");
    for (const ModelPart& part : run.trainer().parts()) frozen_.emplace_back(part.label, part.kind);
    change_view([&](BisectView& view) {
      view.name = start_.recipe.name;
      view.condition = in_words(parse_condition(config_.condition, "bisect"));
      view.from = view.at = start_.step;
      view.until = config_.until > 0 ? config_.until : run.trainer().config().steps;
      view.planned = frozen_.size();
    });
    if (view_->until <= view_->from)
      throw BadInput("bisect: this run begins at step ", view_->from, "; set `until` to a step after ", view_->until);
  }

  /// Whether `recipe` describes the training that is repeated here.
  bool is_of(const Recipe& recipe) const { return common_step(start_.recipe, recipe) >= view_->until; }
  bool is_complete() const { return view_->is_complete(); }
  double share_done() const {
    const auto done = static_cast<double>(view_->at - view_->from),
               all = static_cast<double>(view_->until - view_->from);
    return (static_cast<double>(view_->parts.size()) + done / all) / static_cast<double>(view_->planned);
  }

  /// Trains one step of the present repetition; false if all are finished. Throws Error(bad_input) if the condition
  /// names a number that the run does not have.
  bool advance(Backend& backend) {
    if (is_complete()) return false;
    if (!now_) begin_next(backend);
    const bool goes_on = now_->train_step();
    const std::int64_t step = now_->step();
    if (goes_on && condition_.reached(step, measure_function(*now_))) {
      take_result(step);
    } else if (!goes_on || step >= view_->until) {
      take_result(-1);
    } else {
      change_view([&](BisectView& view) { view.at = step; });
    }
    return !is_complete();
  }

 private:
  /// From the start, with a part frozen before its first step.
  void begin_next(Backend& backend) {
    Snapshot from = start_;
    from.recipe.training.steps = std::max(from.recipe.training.steps, view_->until);
    const std::string& part = frozen_[view_->parts.size()].first;
    if (!part.empty())
      from.recipe.commands.insert(from.recipe.commands.begin(), {start_.step, {"freeze", {{"part", part}}}});
    std::ranges::stable_sort(from.recipe.commands, {}, &TimedCommand::step);
    now_ = std::make_unique<AnalysedRun>(SavedRun{from.recipe, from}, backend, 0);
    condition_ = StopCondition({config_.condition, 1}, measure_function(*now_));
  }

  void take_result(std::int64_t step) {
    change_view([&](BisectView& view) {
      const auto& [part, kind] = frozen_[view.parts.size()];
      view.parts.push_back({part, kind, step});
      view.at = view.from;
    });
    now_.reset();
  }

  Snapshot start_;
  std::vector<std::pair<std::string, std::string>> frozen_;  // label and kind of the part that each repetition freezes
  std::unique_ptr<AnalysedRun> now_;
  StopCondition condition_;
};

}  // namespace

AnalysisInfo bisect_row() {
  const auto work = [](const AnalysisSubject& subject) -> ModelWork {
    const double steps = static_cast<double>(subject.run->trainer().config().steps);
    return {tokens_of_training(subject, (branches_of(subject) + 3) * steps), 0, 0};
  };
  return request_row<Bisect, &AnalysisResults::bisect, Analysis::bisect>("bisect", work);
}

}  // namespace afterglow
