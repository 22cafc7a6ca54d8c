// Views answer with commands: plain values that the window sends to the engine or runs itself.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/recipe/command.h"

namespace afterglow {

class CommandQueue {
 public:
  void send(std::string name, nlohmann::json fields = nullptr) {
    commands_.emplace_back(std::move(name), std::move(fields));
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
