// From a key to a command, by the table of commands, which lists every key.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/command.h"

namespace afterglow {

struct Chord {
  bool ctrl = false, shift = false, alt = false;
  std::string key;  ///< "Space", "P", "F1", "+"
  bool operator==(const Chord&) const = default;
};

/// "Ctrl+Shift+R" -> a chord; "Ctrl++" is Ctrl with the plus key. Empty if the text is not a chord.
std::optional<Chord> parse_chord(std::string_view text);
/// The chords of a command, which the table separates by spaces.
std::vector<Chord> chords_of(const CommandSpec& spec);
/// The command of a key. Some keys add a value: Shift with an arrow is ten steps, Ctrl+0 is size 1.
std::optional<Command> command_for(const Chord& chord);
/// Whether a chord acts while a text field has the keyboard focus: chords with Ctrl, and function keys.
bool acts_while_typing(const Chord& chord);

}  // namespace afterglow
