// Commands are the only input: menu, key, slider, lesson, script and command line send the same named values.
#pragma once
#include <complex>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace afterglow {

/// `set`: a number of the training or of a layer.
struct SetNumber {
  std::string key;
  double to = 0;
  bool is_live = false;  ///< from a drag in progress
};

/// A mode of a head, or a pair of a Koopman MLP (head 0).
struct ModeName {
  int layer = 0, head = 0;  ///< the layer as an index into ModelSummary::layers
  bool is_number = true;  ///< `mode` is the number that the mode keeps (HeadSpectrum::identity), else its place by size
  int mode = 0;
  bool operator==(const ModeName&) const = default;
};

/// `drag_mode`: to an eigenvalue of A_w whose parts are at most 4.
struct MoveMode {
  ModeName name;
  std::complex<double> to;
  bool is_live = false;
};

/// `mode_off`.
struct SwitchMode {
  ModeName name;
  bool off = true;
};

/// A named action with a JSON value, as in a script: {"name": "set", "value": {"key": "learning_rate", "to": 1e-3}}.
/// The value is JSON text where it comes from a file, a script, the command line or the palette.
struct Command {
  std::string name;
  std::string value = "{}";
  /// The value in place of `value`, for commands that the mouse gives many times a second.
  std::variant<std::monostate, SetNumber, MoveMode, SwitchMode> typed{};

  Command() = default;
  Command(std::string called, std::string json = "{}") : name(std::move(called)), value(std::move(json)) {}
  Command(SetNumber wanted) : name("set"), typed(std::move(wanted)) {}
  Command(const MoveMode& wanted) : name("drag_mode"), typed(wanted) {}
  Command(const SwitchMode& wanted) : name("mode_off"), typed(wanted) {}
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
/// Reads {"name":..,"value":{..}}. Throws Error for a malformed value or an unknown name, and suggests the nearest one.
Command parse_command(const nlohmann::json& json);

}  // namespace afterglow
