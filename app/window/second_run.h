// B of a comparison: a second session, which shows what the first one shows.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "core/engine/session/observation_source.h"

namespace afterglow {

class SecondRun {
 public:
  /// `keeps_step`: it stays at its step while the first run goes through time.
  SecondRun(std::unique_ptr<ObservationSource> source, bool keeps_step)
      : source_(std::move(source)), keeps_step_(keeps_step) {}

  /// Whether a command of this name chooses what is inspected.
  static bool looks(const std::string& name);
  /// Takes part in a command to the first run: what is inspected, and the time.
  void follow(const Command& command);
  /// The newest observation, with the analyses of the page and the first run's inspected sequence.
  std::shared_ptr<const Observation> observe(const Observation& first, AnalysisSet asked);
  /// Changes places with the first run, whose observations the window then passes as this one's.
  void swap(std::unique_ptr<ObservationSource>& first);
  bool has_news() { return source_->revision() != revision_; }
  /// A failure since the last call.
  std::optional<std::string> new_problem();

 private:
  std::unique_ptr<ObservationSource> source_;
  bool keeps_step_;
  std::uint64_t revision_ = 0;
  std::shared_ptr<const Observation> seen_ = source_->observe();
  nlohmann::json sequence_;             ///< value of the last command that chose it
  std::optional<bool> trained_before_;  ///< that command, which is not answered yet
  std::string said_;
};

}  // namespace afterglow
