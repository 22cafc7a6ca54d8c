// Which commands both runs get.
#include "app/window/second_run.h"

#include <algorithm>
#include <string_view>

#include "views/plots/same_sequence.h"

namespace afterglow {

void SecondRun::follow(const Command& command) {
  constexpr std::string_view looked_at[] = {"trace",          "theory", "influence",    "measure",
                                            "solver_problem", "pair",   "freeze_scale", "transplant"};
  constexpr std::string_view times[] = {"run", "pause", "toggle_run", "step", "run_to", "rewind", "reset"};
  const auto has = [&](const auto& names) { return std::ranges::find(names, command.name) != std::end(names); };
  if (has(looked_at) || (!keeps_step_ && has(times))) source_->send(command);
}

std::shared_ptr<const Observation> SecondRun::observe(const Observation& first, AnalysisSet asked) {
  revision_ = source_->revision();
  seen_ = source_->observe();
  source_->request_analyses(asked);
  const std::optional<Command> same = same_sequence(first, *seen_);
  if (same && same->value != sequence_) {  // each once: it may not have such tokens
    sequence_ = same->value;
    source_->send(*same);
  }
  return seen_;
}

void SecondRun::swap(std::unique_ptr<ObservationSource>& first) {
  std::swap(source_, first);
  seen_ = source_->observe();
  sequence_.clear();
  new_problem();  // what it has said as the first run
}

std::optional<std::string> SecondRun::new_problem() {
  if (seen_->events.empty() || seen_->events.back().text == said_) return std::nullopt;
  said_ = seen_->events.back().text;
  return seen_->events.back().severity == Severity::failure ? std::optional(said_) : std::nullopt;
}

}  // namespace afterglow
