// Command values as JSON text.
#include "views/command_queue.h"

#include <nlohmann/json.hpp>

namespace afterglow {

std::string command_value(const std::vector<CommandField>& fields) {
  nlohmann::json value = nlohmann::json::object();
  for (const auto& [key, content] : fields) {
    std::visit([&, name = key](const auto& v) { value[name] = v; }, content);
  }
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace afterglow
