// Commands are the only input: menu, key, slider, lesson, script and command line send the same named values.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

namespace afterglow {

/// A named action with a JSON value, as in a script: {"name": "set", "value": {"key": "learning_rate", "to": 1e-3}}.
/// The value is JSON text, so that commands are cheap plain values.
struct Command {
  std::string name;
  std::string value = "{}";
};

enum class CommandTarget { engine, window };

/// One row of the table of commands, which menus, palette, F1, scripts and documentation read.
struct CommandSpec {
  std::string_view name;
  CommandTarget target;
  std::string_view title;    ///< for menu and palette: "Run or pause"
  std::string_view keys;     ///< "Space"; may be empty
  std::string_view example;  ///< a value for scripts, JSON
  std::string_view meaning;
  bool is_control = false;        ///< disabled for keys and mouse while the controls are locked
  bool edits_inspection = false;  ///< changes what is inspected, and nothing of the run; can be undone
};

/// Every command.
std::span<const CommandSpec> command_table();
/// nullptr if there is no such command.
const CommandSpec* find_command(std::string_view name);
/// CommandSpec::edits_inspection of the command with this name; false for an unknown name.
bool edits_inspection(std::string_view name);
/// Reads {"name":..,"value":{..}}. Throws Error for a malformed value or an unknown name, and suggests the nearest one.
Command parse_command(const nlohmann::json& json);

}  // namespace afterglow
