// Chords as text, and the values that some of them add to their command.
#include "app/window/keys.h"

#include <array>

namespace afterglow {

namespace {

struct ChordValue {
  std::string_view chord, command, value;
};

constexpr std::array values{
    ChordValue{"Shift+Left", "time_left", R"({"count": 10})"},
    ChordValue{"Shift+Right", "time_right", R"({"count": 10})"},
    ChordValue{"+", "speed", R"({"by": 1})"},
    ChordValue{"-", "speed", R"({"by": -1})"},
    ChordValue{"Ctrl++", "zoom", R"({"factor": 1.1})"},
    ChordValue{"Ctrl+-", "zoom", R"({"factor": 0.909090909})"},
    ChordValue{"Ctrl+0", "zoom", R"({"to": 1.0})"},
    ChordValue{"Shift+X", "axis_scale", R"({"axis": "x"})"},
    ChordValue{"Shift+Y", "axis_scale", R"({"axis": "y"})"},
    ChordValue{"Ctrl+Shift+E", "export", R"({"all": true})"},
    ChordValue{"Ctrl+C", "copy", R"({"what": "picture"})"},
    ChordValue{"Ctrl+Alt+C", "copy", R"({"what": "words"})"},
    ChordValue{"1", "maximise", R"({"number": 1})"},
    ChordValue{"2", "maximise", R"({"number": 2})"},
    ChordValue{"3", "maximise", R"({"number": 3})"},
    ChordValue{"4", "maximise", R"({"number": 4})"},
    ChordValue{"5", "maximise", R"({"number": 5})"},
    ChordValue{"Shift+PageUp", "lesson", R"({"again": true})"},
    ChordValue{"A", "cursor", R"({"which": "a"})"},
    ChordValue{"J", "shuttle", R"({"direction": -1})"},
    ChordValue{"K", "shuttle", R"({"direction": 0})"},
    ChordValue{"L", "shuttle", R"({"direction": 1})"},
    ChordValue{"Shift+Tab", "focus", R"({"by": -1})"},
    ChordValue{"Shift+P", "focus_plot", R"({"by": -1})"},
    ChordValue{"Alt+Left", "crosshair", R"({"by": -1})"},
    ChordValue{"Alt+Home", "crosshair", R"({"to": 0})"},
    ChordValue{"Alt+End", "crosshair", R"({"to": 1})"},
    ChordValue{"Alt+Shift+Left", "pan_plot", R"({"x": -0.1})"},
    ChordValue{"Alt+Shift+Right", "pan_plot", R"({"x": 0.1})"},
    ChordValue{"Alt+Shift+Up", "pan_plot", R"({"y": 0.1})"},
    ChordValue{"Alt+Shift+Down", "pan_plot", R"({"y": -0.1})"},
    ChordValue{"Alt+Up", "zoom_plot", R"({"factor": 0.8})"},
    ChordValue{"Alt+Down", "zoom_plot", R"({"factor": 1.25})"},
    ChordValue{"M", "next", R"({"what": "mode", "by": 1})"},
    ChordValue{"Shift+M", "next", R"({"what": "mode", "by": -1})"},
    ChordValue{"H", "next", R"({"what": "head", "by": 1})"},
    ChordValue{"Shift+H", "next", R"({"what": "head", "by": -1})"},
    ChordValue{"N", "next", R"({"what": "layer", "by": 1})"},
    ChordValue{"Shift+N", "next", R"({"what": "layer", "by": -1})"},
    ChordValue{"Ctrl+Left", "nudge_mode", R"({"re": -0.02})"},
    ChordValue{"Ctrl+Right", "nudge_mode", R"({"re": 0.02})"},
    ChordValue{"Ctrl+Up", "nudge_mode", R"({"im": 0.02})"},
    ChordValue{"Ctrl+Down", "nudge_mode", R"({"im": -0.02})"},
    ChordValue{"Ctrl+Shift+Left", "resize", R"({"width": -0.03})"},
    ChordValue{"Ctrl+Shift+Right", "resize", R"({"width": 0.03})"},
    ChordValue{"Ctrl+Shift+Up", "resize", R"({"height": -0.03})"},
    ChordValue{"Ctrl+Shift+Down", "resize", R"({"height": 0.03})"},
    ChordValue{"Shift+S", "slider", R"({"by": -1})"},
    ChordValue{"Up", "nudge", R"({"by": 1})"},
    ChordValue{"Down", "nudge", R"({"by": -1})"},
    ChordValue{"Shift+Up", "nudge", R"({"by": 10})"},
    ChordValue{"Shift+Down", "nudge", R"({"by": -10})"},
    ChordValue{"PageUp", "page", R"({"by": -1})"},
    ChordValue{"Ctrl+1", "workspace", R"({"number": 1})"},
    ChordValue{"Ctrl+2", "workspace", R"({"number": 2})"},
    ChordValue{"Ctrl+3", "workspace", R"({"number": 3})"},
    ChordValue{"Ctrl+4", "workspace", R"({"number": 4})"},
    ChordValue{"Ctrl+5", "workspace", R"({"number": 5})"},
    ChordValue{"Ctrl+6", "workspace", R"({"number": 6})"},
    ChordValue{"Ctrl+7", "workspace", R"({"number": 7})"},
    ChordValue{"Ctrl+8", "workspace", R"({"number": 8})"},
    ChordValue{"Ctrl+9", "workspace", R"({"number": 9})"},
};

}  // namespace

std::optional<Chord> parse_chord(std::string_view text) {
  Chord chord;
  while (text.size() > 1) {
    const std::size_t plus = text.find('+', 1);
    if (plus == std::string_view::npos) break;
    const std::string_view modifier = text.substr(0, plus);
    if (modifier == "Ctrl") {
      chord.ctrl = true;
    } else if (modifier == "Shift") {
      chord.shift = true;
    } else if (modifier == "Alt") {
      chord.alt = true;
    } else {
      return std::nullopt;
    }
    text.remove_prefix(plus + 1);
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
      if (known != chord) continue;
      Command command{std::string(spec.name), "{}"};
      for (const ChordValue& carried : values) {
        if (carried.command == spec.name && parse_chord(carried.chord) == chord) command.value = carried.value;
      }
      return command;
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
