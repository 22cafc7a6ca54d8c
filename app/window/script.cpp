// Reads scripts and gives their commands in time.
#include "app/window/script.h"

#include <nlohmann/json.hpp>

#include "core/io/error.h"
#include "core/io/json_file.h"

namespace afterglow {

Script::Script(const std::string& path) {
  const nlohmann::json file = read_json(path);
  const nlohmann::json list = file.is_object() && file.contains("commands") ? file["commands"] : file;
  if (!list.is_array())
    throw Error(ExitCode::bad_input, path + ": a script is a list of commands, or an object with \"commands\"");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string where = path + ", command " + std::to_string(i);
    constexpr std::int64_t most = std::int64_t{1} << 53;
    ScriptLine line;
    line.command = parse_command(list[i]);
    line.frame = get_integer(list[i], "frame", 0, 0, most, where);
    line.time = get_number(list[i], "time", 0, 0, 1e9, where);
    line.step = get_integer(list[i], "step", 0, 0, most, where);
    lines_.push_back(std::move(line));
  }
}

std::vector<Command> Script::due(std::int64_t frame, double time, std::int64_t step) {
  std::vector<Command> commands;
  while (next_ < lines_.size()) {
    const ScriptLine& line = lines_[next_];
    if (frame < line.frame || time < line.time || step < line.step) break;
    commands.push_back(line.command);
    ++next_;
    if (line.command.name == "screenshot") break;  // it shows this frame, and nothing of what comes behind it
  }
  return commands;
}

}  // namespace afterglow
