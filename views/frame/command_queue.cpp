// Command values as JSON text.
#include "views/frame/command_queue.h"

#include <nlohmann/json.hpp>

namespace afterglow {

std::string command_value(const std::vector<CommandField>& fields) {
  nlohmann::json value = nlohmann::json::object();
  for (const auto& [key, content] : fields) std::visit([&, name = key](const auto& v) { value[name] = v; }, content);
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void CommandQueue::drop_controls() {
  std::erase_if(commands_, [](const Command& command) {
    const CommandSpec* spec = find_command(command.name);
    return spec && spec->is_control;
  });
}

}  // namespace afterglow
