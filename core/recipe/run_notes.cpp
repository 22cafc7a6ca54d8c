// Reads and changes the list of the command `note`.
#include "core/recipe/run_notes.h"

#include <algorithm>

#include "core/io/json.h"
#include "core/io/json_file.h"
#include "core/io/named.h"
#include "core/io/terminal_text.h"
#include "core/recipe/recipe.h"

namespace afterglow {
namespace {

constexpr std::size_t longest_note = 200;  // every figure's file carries all of them

RunNote read_note(const json& value) {
  constexpr double most = 1e300, none = std::numeric_limits<double>::quiet_NaN();
  JsonFields fields(value, "note");
  const RunNote note{terminal_text(fields.text("text", "")),
                     fields.integer("step", 0, 0, max_steps),
                     fields.text("figure", ""),
                     fields.number("x", none, -most, most),
                     fields.number("y", none, -most, most),
                     static_cast<int>(fields.integer("token", -1, -1, 1 << 24)),
                     fields.text("label", "")};
  fields.refuse_others();
  if (note.text.empty() || note.text.size() > longest_note)
    throw BadInput("note.text: give a line of 1 to " + std::to_string(longest_note) + " bytes, as {\"text\": \"..\"}");
  return note;
}

}  // namespace

json note_list(const Recipe& recipe) {
  const auto is_note = [](const TimedCommand& timed) { return timed.command.name == "note"; };
  const auto found = std::ranges::find_if(recipe.commands, is_note);
  if (found == recipe.commands.end()) return json::array();
  const json& value = found->command.value;
  if (!value.contains("notes") || !value["notes"].is_array() || std::ranges::count_if(recipe.commands, is_note) > 1)
    throw BadInput("note: a recipe has one such command, with all notes in a list \"notes\"");
  return value["notes"];
}

std::vector<RunNote> notes_of(const Recipe& recipe) { return mapped(note_list(recipe), read_note); }

json changed_notes(json list, json value, std::int64_t step) {
  if (value.contains("number")) {
    if (list.empty()) throw BadInput("note: there is no note yet");
    const auto last = static_cast<std::int64_t>(list.size());
    const auto place = static_cast<std::size_t>(get_integer(value, "number", std::nullopt, 1, last, "note") - 1);
    value.erase("number");
    list[place].update(value);
    if (list[place].at("text") == "") list.erase(place);
  } else {
    list.push_back({{"step", step}});
    list.back().update(value);
  }
  for (const json& one : list) read_note(one);
  return list;
}

}  // namespace afterglow
