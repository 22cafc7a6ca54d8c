// Reads the table of commands from assets/commands and assets/analyses.
#include "core/recipe/command.h"

#include <cmath>
#include <vector>

#include "core/io/embedded_text.h"
#include "core/io/json.h"
#include "core/io/json_file.h"
#include "core/io/named.h"

namespace afterglow {

/// The files of assets/commands, one for each CommandTarget.
std::span<const EmbeddedText> command_texts();
/// The files of assets/analyses, each with the texts of one analysis.
std::span<const EmbeddedText> analysis_texts();

namespace {

/// Refers to the texts of `row`, which must outlive it.
CommandSpec spec_of(const json& row, CommandTarget target) {
  const auto text = [&](const char* key, std::string_view usual) {
    return row.contains(key) ? std::string_view(row[key].get_ref<const std::string&>()) : usual;
  };
  return {text("name", ""),
          target,
          text("title", ""),
          text("keys", ""),
          text("example", "{}"),
          text("meaning", ""),
          row.value("is_control", false),
          row.value("edits_inspection", false)};
}

std::vector<CommandSpec> read_table() {
  static std::vector<json> files;
  std::vector<CommandSpec> table;
  for (const EmbeddedText& file : command_texts()) files.push_back(json::parse(file.json));
  for (const EmbeddedText& file : analysis_texts()) {
    for (const json& row : json::parse(file.json).value("commands", json::array())) files.front().push_back(row);
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    const CommandTarget target =
        std::string_view(command_texts()[i].name) == "engine" ? CommandTarget::engine : CommandTarget::window;
    for (const json& row : files[i]) table.push_back(spec_of(row, target));
  }
  return table;
}

}  // namespace

Command::Command(std::string called, json fields) : name(std::move(called)), value(std::move(fields)) {
  if (value.is_null()) value = json::object();
  if (!value.is_object()) throw BadInput(name, " takes an object, not ", value.dump().substr(0, 80));
}

SetNumber SetNumber::of(const Command& command, const std::string& where) {
  return {get_string(command.value, "key", std::nullopt, where),
          get_number(command.value, "to", std::nullopt, -INFINITY, INFINITY, where),
          get_bool(command.value, "live", false, where)};
}

SetNumber::operator Command() const {
  Command command{"set", {{"key", key}, {"to", to}}};
  if (is_live) command.value["live"] = true;
  return command;
}

std::span<const CommandSpec> command_table() {
  static const std::vector<CommandSpec> table = read_table();
  return table;
}

const CommandSpec* find_command(std::string_view name) { return find_by(command_table(), name, &CommandSpec::name); }

bool edits_inspection(std::string_view name) {
  const CommandSpec* spec = find_command(name);
  return spec != nullptr && spec->edits_inspection;
}

bool is_live(const Command& command) { return get_bool(command.value, "live", false, command.name); }

json to_json(const Command& command) { return {{"name", command.name}, {"value", command.value}}; }

Command parse_command(const json& source) {
  if (!source.is_object() || !source.contains("name") || !source["name"].is_string())
    throw BadInput("a command is an object with a \"name\", such as {\"name\": \"run\"}; got ",
                   source.dump().substr(0, 80));
  const auto name = source["name"].get<std::string>();
  if (!find_command(name)) throw BadInput("there is no command \"", name, "\"; `afterglow info --json` lists them all");
  return {name, source.value("value", json())};
}

}  // namespace afterglow
