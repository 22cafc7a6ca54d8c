// Reads scripts and gives their commands in time.
#include "app/window/script.h"

#include <nlohmann/json.hpp>

#include "core/io/error.h"
#include "core/io/json_file.h"

namespace afterglow {
namespace {

ScriptLine read_line(const nlohmann::json& value, const std::string& where) {
  constexpr std::int64_t most = std::int64_t{1} << 53;
  return ScriptLine{.command = parse_command(value),
                    .frame = get_integer(value, "frame", 0, 0, most, where),
                    .time = get_number(value, "time", 0, 0, 1e9, where),
                    .step = get_integer(value, "step", 0, 0, most, where)};
}

}  // namespace

Script::Script(const std::string& path) : Script(read_json(path), path) {}

Script::Script(const nlohmann::json& file, const std::string& where) {
  const nlohmann::json& list = file.is_object() && file.contains("commands") ? file["commands"] : file;
  if (!list.is_array()) throw BadInput(where + ": a script is a list of commands, or an object with \"commands\"");
  for (const nlohmann::json& value : list)
    lines_.push_back(read_line(value, where + ", command " + std::to_string(lines_.size())));
}

std::vector<Command> Script::due(std::int64_t frame, double time, std::int64_t step) {
  std::vector<Command> commands;
  while (next_ < lines_.size()) {
    const ScriptLine& line = lines_[next_];
    if (frame < line.frame || time < line.time || step < line.step) break;
    commands.push_back(line.command);
    ++next_;
    if (line.command.name == "screenshot") break;  // shows this frame before it gives the next commands
  }
  return commands;
}

}  // namespace afterglow
