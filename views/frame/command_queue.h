// Views answer with commands: plain values that the window sends to the engine or runs itself.
#pragma once
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/recipe/command.h"

namespace afterglow {

using CommandField = std::pair<const char*, std::variant<std::int64_t, double, bool, std::string>>;

/// {"key": "learning_rate", "to": 0.001} from its fields.
std::string command_value(const std::vector<CommandField>& fields);

class CommandQueue {
 public:
  void send(std::string name, const std::vector<CommandField>& fields = {}) {
    commands_.push_back({std::move(name), command_value(fields)});
  }
  void send(Command command) { commands_.push_back(std::move(command)); }
  std::vector<Command> take() { return std::exchange(commands_, {}); }
  const std::vector<Command>& waiting() const { return commands_; }
  /// With locked controls: drops the commands that only controls may send.
  void drop_controls();

 private:
  std::vector<Command> commands_;
};

}  // namespace afterglow
