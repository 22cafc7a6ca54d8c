// Reads and changes the list of the command `note`.
#include "core/engine/recipe/run_notes.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/engine/recipe/recipe.h"
#include "core/io/json_file.h"
#include "core/io/terminal_text.h"

namespace afterglow {

namespace {

using nlohmann::json;

constexpr std::size_t longest_note = 200, most_notes = 200;  // every figure's file carries all of them

RunNote read_note(const json& value) {
  constexpr const char* where = "note";
  constexpr double most = 1e300;
  refuse_unknown_keys(value, {"text", "step", "figure", "x", "y", "token", "label"}, where);
  RunNote note{terminal_text(get_string(value, "text", "", where)), get_integer(value, "step", 0, 0, max_steps, where)};
  note.figure = get_string(value, "figure", "", where);
  note.x = value.contains("x") ? get_number(value, "x", 0, -most, most, where) : note.x;
  note.y = value.contains("y") ? get_number(value, "y", 0, -most, most, where) : note.y;
  note.token = static_cast<int>(get_integer(value, "token", -1, -1, 1 << 24, where));
  note.label = get_string(value, "label", "", where);
  if (note.text.empty() || note.text.size() > longest_note)
    throw Error(ExitCode::bad_input,
                "note.text: give a line of 1 to " + std::to_string(longest_note) + " bytes, as {\"text\": \"..\"}");
  return note;
}

}  // namespace

json note_list(const Recipe& recipe) {
  const auto is_note = [](const TimedCommand& timed) { return timed.command.name == "note"; };
  const auto found = std::ranges::find_if(recipe.commands, is_note);
  if (found == recipe.commands.end()) return json::array();
  const json value = parse_json(found->command.value, "the value of note");
  if (!value.contains("notes") || !value["notes"].is_array() || std::ranges::count_if(recipe.commands, is_note) > 1)
    throw Error(ExitCode::bad_input, "note: a recipe has one such command, with all notes in a list \"notes\"");
  return value["notes"];
}

std::vector<RunNote> notes_of(const Recipe& recipe) {
  std::vector<RunNote> notes;
  for (const json& one : note_list(recipe)) notes.push_back(read_note(one));
  return notes;
}

json changed_notes(json list, json value, std::int64_t step) {
  const bool removes = value.contains("remove");
  if (const char* const key = removes ? "remove" : "number"; value.contains(key)) {
    const auto last = static_cast<std::int64_t>(list.size());
    if (last == 0) throw Error(ExitCode::bad_input, "note: there is no note yet");
    const auto place = static_cast<std::size_t>(get_integer(value, key, std::nullopt, 1, last, "note") - 1);
    value.erase(key);
    removes ? list.erase(place) : list[place].update(value);
  } else {
    list.push_back({{"step", step}});
    list.back().update(value);
  }
  if (list.size() > most_notes)
    throw Error(ExitCode::bad_input, "note: there are " + std::to_string(most_notes) + " already; remove one first");
  for (const json& one : list) read_note(one);
  return list;
}

}  // namespace afterglow
