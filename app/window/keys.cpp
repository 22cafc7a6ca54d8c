// Chords as text, and the values that some of them add to their command.
#include "app/window/keys.h"

#include <map>
#include <nlohmann/json.hpp>

#include "core/io/embedded_text.h"

namespace afterglow {

/// The files of assets/keys.
std::span<const EmbeddedText> key_values();

namespace {

/// The value that a key adds to its command; null without one.
nlohmann::json value_of(std::string_view command, const Chord& chord) {
  static const nlohmann::json values = nlohmann::json::parse(key_values().front().json);
  const nlohmann::json of_command = values.value(std::string(command), nlohmann::json::object());
  for (const auto& [key, value] : of_command.items()) {
    if (parse_chord(key) == chord) return value;
  }
  return nullptr;
}

}  // namespace

std::optional<Chord> parse_chord(std::string_view text) {
  static const std::map<std::string_view, bool Chord::*> modifiers{
      {"Ctrl", &Chord::ctrl}, {"Shift", &Chord::shift}, {"Alt", &Chord::alt}};
  Chord chord;
  for (std::size_t plus; (plus = text.find('+', 1)) != std::string_view::npos; text.remove_prefix(plus + 1)) {
    const auto modifier = modifiers.find(text.substr(0, plus));
    if (modifier == modifiers.end()) return std::nullopt;
    chord.*modifier->second = true;
  }
  if (text.empty()) return std::nullopt;
  chord.key = text;
  return chord;
}

std::vector<Chord> chords_of(const CommandSpec& spec) {
  std::vector<Chord> chords;
  std::string_view rest = spec.keys;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    if (const auto chord = parse_chord(rest.substr(0, end))) chords.push_back(*chord);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return chords;
}

std::optional<Command> command_for(const Chord& chord) {
  for (const CommandSpec& spec : command_table()) {
    for (const Chord& known : chords_of(spec)) {
      if (known == chord) return Command{std::string(spec.name), value_of(spec.name, chord)};
    }
  }
  return std::nullopt;
}

bool acts_while_typing(const Chord& chord) {
  // Ctrl chords of text fields stay with the field.
  if (chord.ctrl && !chord.shift && (chord.key == "Z" || chord.key == "Y")) return false;
  for (const std::string_view arrow : {"Left", "Right", "Up", "Down"}) {
    if (chord.key == arrow) return false;
  }
  return chord.ctrl || (chord.key.size() >= 2 && chord.key[0] == 'F' && chord.key[1] >= '1' && chord.key[1] <= '9');
}

}  // namespace afterglow
