// Which commands both runs get.
#include "app/window/second_run.h"

#include <algorithm>
#include <string_view>

#include "views/plots/plot_kinds.h"

namespace afterglow {

bool SecondRun::looks(const std::string& name) {
  constexpr std::string_view names[] = {"trace",          "theory", "influence",    "measure",
                                        "solver_problem", "pair",   "freeze_scale", "transplant"};
  return std::ranges::find(names, name) != std::end(names);
}

void SecondRun::follow(const Command& command) {
  constexpr std::string_view times[] = {"run", "pause", "toggle_run", "step", "run_to", "rewind", "reset"};
  const bool is_of_time = std::ranges::find(times, command.name) != std::end(times);
  if (looks(command.name) || (!keeps_step_ && is_of_time)) source_->send(command);
}

std::shared_ptr<const Observation> SecondRun::observe(const Observation& first, AnalysisSet asked) {
  revision_ = source_->revision();
  seen_ = source_->observe();
  source_->request_analyses(asked);
  const std::optional<Command> same = same_sequence(first, *seen_);
  if (!same) trained_before_.reset();
  if (same && same->value != sequence_) {  // each once: it may not have such tokens
    sequence_ = same->value;
    trained_before_ = seen_->running;
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
  if (seen_->events.back().severity != Severity::failure) return std::nullopt;
  const std::optional<bool> is_of_sequence = std::exchange(trained_before_, {});
  if (!is_of_sequence) return said_;
  if (*is_of_sequence) source_->send({"run"});  // a failure pauses it
  return said_ + "; B shows a sequence of its own until A inspects one that both can read (V swaps them)";
}

}  // namespace afterglow
