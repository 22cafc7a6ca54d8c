// Commands are the only input: menu, key, slider, lesson, script and command line send the same named values.
#pragma once
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

namespace afterglow {

/// A name with a value, which is an object: {"name": "set", "value": {"key": "learning_rate", "to": 1e-3}}. Files,
/// scripts, the command line, the palette and the line to another machine hold it as JSON text; inside of the program
/// no code in between prints or parses it.
struct Command {
  std::string name;
  nlohmann::json value = nlohmann::json::object();

  Command() = default;
  /// Without fields for null. Throws Error(bad_input) for any other value that is no object.
  Command(std::string called, nlohmann::json fields = nullptr);
  bool operator==(const Command&) const = default;
};

/// `set`: a number of the training or of a layer.
struct SetNumber {
  std::string key;
  double to = 0;
  bool is_live = false;  ///< from a drag in progress

  /// Reads the fields; throws Error(bad_input) that begins with `where`.
  static SetNumber of(const Command& command, const std::string& where = "set");
  operator Command() const;
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
/// Whether its value holds {"live": true}. Throws Error(bad_input) for another value of that field.
bool is_live(const Command& command);
/// As {"name":..,"value":{..}}.
nlohmann::json to_json(const Command& command);
/// Reads that. Throws Error(bad_input) for a malformed value or an unknown name.
Command parse_command(const nlohmann::json& json);

}  // namespace afterglow
