// A script: commands with the moments at which they are given, for demonstrations, pictures and tests.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/recipe/command.h"

namespace afterglow {

/// A command waits for all of its conditions and for the commands before it.
struct ScriptLine {
  Command command;
  std::int64_t frame = 0;  ///< frames drawn since the start
  double time = 0;         ///< seconds since the start
  std::int64_t step = 0;   ///< training step to wait for
};

class Script {
 public:
  Script() = default;
  /// {"commands": [{"name": "select", "value": {"head": 2}, "step": 20}, ..]} or only the list. Throws
  /// Error(bad_input).
  explicit Script(const std::string& path);
  /// The same for parsed JSON; `where` names it in messages.
  Script(const nlohmann::json& file, const std::string& where);
  /// The commands that are due now, in order.
  std::vector<Command> due(std::int64_t frame, double time, std::int64_t step);
  bool is_done() const { return next_ == lines_.size(); }
  /// Whether the next command waits for frames to be drawn.
  bool counts_frames(std::int64_t frame) const { return !is_done() && frame < lines_[next_].frame; }
  /// Whether the next command waits for a training step.
  bool awaits_training(std::int64_t step) const { return !is_done() && step < lines_[next_].step; }

 private:
  std::vector<ScriptLine> lines_;
  std::size_t next_ = 0;
};

}  // namespace afterglow
