// Commands are the only way in: menu, key, slider, lesson, script and command line send the same named values.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

namespace afterglow {

/// A named action with a JSON value, as a script writes it: {"name": "set", "value": {"key": "learning_rate", "to":
/// 1e-3}}. The value is kept as JSON text so that commands are cheap plain values.
struct Command {
  std::string name;
  std::string value = "{}";
};

enum class CommandTarget { engine, window };

/// One line of the table of commands: everything that menus, palette, F1, scripts and documentation need.
struct CommandSpec {
  std::string_view name;
  CommandTarget target;
  std::string_view title;    ///< for menu and palette: "Run or pause"
  std::string_view keys;     ///< "Space"; empty when none
  std::string_view example;  ///< a value that a script may send, JSON
  std::string_view meaning;
  bool is_control = false;   ///< neither a key nor the mouse gives it where the controls are locked
  bool edits_probe = false;  ///< changes what the probe asks, and nothing of the run; undo takes it back
};

/// Every command there is.
std::span<const CommandSpec> command_table();
/// nullptr when there is no such command.
const CommandSpec* find_command(std::string_view name);
/// CommandSpec::edits_probe of the command with this name; false where there is none.
bool edits_probe(std::string_view name);
/// Reads {"name":..,"value":{..}}; an unknown name, with the nearest one named, or a malformed value is an Error.
Command parse_command(const nlohmann::json& json);

}  // namespace afterglow
