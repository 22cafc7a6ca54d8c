// A state at a time, in a run of its own.
#include "core/engine/session/over_training.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/engine/observation/run_numbers.h"
#include "core/engine/session/analysed_run.h"
#include "core/io/error.h"
#include "core/io/json_file.h"

namespace afterglow {

namespace {

/// Steps from the nearest one that is known.
std::int64_t gap_at(const std::vector<double>& known, std::int64_t step) {
  const auto after = std::ranges::lower_bound(known, static_cast<double>(step));
  auto gap = std::numeric_limits<double>::infinity();
  if (after != known.end()) gap = *after - static_cast<double>(step);
  if (after != known.begin()) gap = std::min(gap, static_cast<double>(step) - *std::prev(after));
  return std::isinf(gap) ? std::numeric_limits<std::int64_t>::max() : static_cast<std::int64_t>(gap);
}

}  // namespace

OverTrainingConfig parse_over_training(const nlohmann::json& value, const OverTrainingConfig& before) {
  refuse_unknown_keys(value, {"number"}, "over_training");
  return {get_string(value, "number", before.number, "over_training")};
}

nlohmann::json to_json(const OverTrainingConfig& config) { return {{"number", config.number}}; }

OverTraining::OverTraining(const TrainingRun& run, OverTrainingConfig config)
    : config_(std::move(config)), run_(&run), measured_(run.recipe()) {
  auto view = std::make_shared<OverTrainingView>();
  view->name = measured_.name;
  view->number = config_.number;
  view_ = std::move(view);
  const std::int64_t last = run.kept_snapshot(run.step())->step;
  if (!measure(last, run.trainer().backend()))
    throw Error(ExitCode::bad_input, "over_training: at step " + std::to_string(last) + " this run has no number \"" +
                                         config_.number + "\"; `afterglow check --names` lists those that it has");
}

bool OverTraining::is_of(const Recipe& recipe) const {
  return view_->step.empty() || static_cast<double>(common_step(measured_, recipe)) >= view_->step.back();
}

/// Kept steps up to the present one that are not among these.
std::vector<std::int64_t> OverTraining::missing(const std::vector<double>& known) const {
  std::vector<std::int64_t> steps;
  for (const KeptState& kept : *run_->history().kept()) {
    const bool is_known = std::ranges::binary_search(known, static_cast<double>(kept.step));
    if (kept.step <= run_->step() && !is_known) steps.push_back(kept.step);
  }
  return steps;
}

bool OverTraining::advance(Backend& backend) {
  const std::vector<std::int64_t> left = missing(view_->step);
  if (left.empty()) return false;
  measure(*std::ranges::max_element(left, {}, [&](std::int64_t step) { return gap_at(view_->step, step); }), backend);
  return left.size() > 1;
}

/// Looks at a kept state in a run of its own; false where that has no such number.
bool OverTraining::measure(std::int64_t step, Backend& backend) {
  Snapshot snapshot = *run_->kept_snapshot(step);
  snapshot.recipe.shown_step = -1;
  measured_ = run_->recipe();
  AnalysedRun then(SavedRun{snapshot.recipe, snapshot}, backend, 0);
  const NumberFamily* family = family_of(config_.number);  // none: a number of every run
  const std::vector<NamedNumber> numbers = numbers_of(then.observe(family ? family->analyses : 0));
  const auto found = std::ranges::find(numbers, config_.number, &NamedNumber::name);
  auto view = std::make_shared<OverTrainingView>(*view_);
  const auto place = std::ranges::lower_bound(view->step, static_cast<double>(step)) - view->step.begin();
  view->step.insert(view->step.begin() + place, static_cast<double>(step));
  view->value.insert(view->value.begin() + place, found == numbers.end() ? std::nan("") : found->value.number);
  view->missing = missing(view->step).size();
  view_ = std::move(view);
  return found != numbers.end();
}

}  // namespace afterglow
