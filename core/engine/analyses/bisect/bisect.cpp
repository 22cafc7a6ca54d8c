// Repetitions one after the other, each until its condition holds.
#include "core/engine/analyses/bisect/bisect.h"

#include <nlohmann/json.hpp>

#include "core/engine/session/analysed_run.h"
#include "core/engine/session/stop_condition.h"
#include "core/engine/studies/recipe_run.h"
#include "core/io/error.h"
#include "core/io/json_file.h"

namespace afterglow {

namespace {

/// What a condition needs is made for the very step that it is judged at.
StopCondition::MeasureFunction measure_function(AnalysedRun& run) {
  return [&run](AnalysisSet analyses) { return run.observe(analyses); };
}

}  // namespace

BisectConfig parse_bisect(const nlohmann::json& value, const BisectConfig& before) {
  const std::string where = "bisect";
  refuse_unknown_keys(value, {"condition", "until"}, where);
  BisectConfig config = before;
  config.condition = get_string(value, "condition", config.condition, where);
  config.until = get_integer(value, "until", config.until, 0, max_steps, where);
  parse_condition(config.condition, where);
  return config;
}

nlohmann::json to_json(const BisectConfig& config) {
  return {{"condition", config.condition}, {"until", config.until}};
}

Bisect::Bisect(const TrainingRun& run, BisectConfig config) : Study(std::move(config)) {
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
    throw Error(ExitCode::bad_input, "bisect: this run begins at step " + std::to_string(view_->from) +
                                         "; set `until` to a step after " + std::to_string(view_->until));
}

Bisect::~Bisect() = default;

bool Bisect::is_of(const Recipe& recipe) const { return common_step(start_.recipe, recipe) >= view_->until; }

/// From the start, with a part frozen before its first step.
void Bisect::begin_next(Backend& backend) {
  Snapshot from = start_;
  from.recipe.training.steps = std::max(from.recipe.training.steps, view_->until);
  const std::string& part = frozen_[view_->parts.size()].first;
  if (!part.empty())
    from.recipe.commands.insert(from.recipe.commands.begin(),
                                {start_.step, {"freeze", nlohmann::json{{"part", part}}.dump()}});
  std::ranges::stable_sort(from.recipe.commands, {}, &TimedCommand::step);
  now_ = std::make_unique<AnalysedRun>(SavedRun{from.recipe, from}, backend, 0);
  condition_ = std::make_unique<StopCondition>(StopConfig{config_.condition, 1}, measure_function(*now_));
}

double Bisect::share_done() const {
  const auto done = static_cast<double>(view_->at - view_->from), all = static_cast<double>(view_->until - view_->from);
  return (static_cast<double>(view_->parts.size()) + done / all) / static_cast<double>(view_->planned);
}

void Bisect::take_result(std::int64_t step) {
  change_view([&](BisectView& view) {
    const auto& [part, kind] = frozen_[view.parts.size()];
    view.parts.push_back({part, kind, step});
    view.at = view.from;
  });
  condition_.reset();
  now_.reset();
}

bool Bisect::advance(Backend& backend) {
  if (is_complete()) return false;
  if (!now_) begin_next(backend);
  const bool goes_on = now_->train_step();
  const std::int64_t step = now_->step();
  if (goes_on && condition_->reached(step, measure_function(*now_))) {
    take_result(step);
  } else if (!goes_on || step >= view_->until) {
    take_result(-1);
  } else {
    change_view([&](BisectView& view) { view.at = step; });
  }
  return !is_complete();
}

AnalysisInfo bisect_row() {
  const auto work = [](const AnalysisSubject& subject) -> ModelWork {
    const double steps = static_cast<double>(subject.run->trainer().config().steps);
    return {tokens_of_training(subject, (branches_of(subject) + 3) * steps), 0, 0};
  };
  return request_row<Bisect, &AnalysisResults::bisect, Analysis::bisect, parse_bisect>("bisect", "bisect", work);
}

}  // namespace afterglow
