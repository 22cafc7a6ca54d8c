// Setups as JSON.
#include "core/recipe/inspection_setup.h"

#include <array>
#include <nlohmann/json.hpp>

#include "core/io/error.h"
#include "core/io/json_file.h"

namespace afterglow {
namespace {
constexpr std::int64_t max_examples = std::int64_t{1} << 53;

std::vector<int> read_tokens(const nlohmann::json& object, const std::string& where) {
  if (!object["tokens"].is_array()) throw BadInput(where, ".tokens: expected a list");
  std::vector<int> tokens;
  for (const nlohmann::json& token : object["tokens"]) {
    if (!token.is_number_integer()) throw BadInput(where, ".tokens: ", token.dump(), " is no whole number");
    tokens.push_back(token.get<int>());
  }
  return tokens;
}
}  // namespace

std::string_view name_of(AnswerMeasure measure) {
  static constexpr std::array names{"logit difference", "probability", "loss"};
  return names[static_cast<std::size_t>(measure)];
}

nlohmann::json to_json(const PairChoice& pair) {
  nlohmann::json result = to_json<PairChoice>(pair);
  result["measure"] = std::string(name_of(pair.measure));
  if (!pair.tokens.empty()) result["tokens"] = pair.tokens;
  if (!pair.heads) result.erase("heads");
  return result;
}

PairChoice parse_pair(const nlohmann::json& value, const PairChoice& before) {
  PairChoice pair = read_fields_among({"tokens", "measure"}, value, before);
  std::vector<std::string> names;
  for (const AnswerMeasure measure : all_measures) names.emplace_back(name_of(measure));
  pair.measure = get_enum(value, "measure", names, pair.measure, PairChoice::command);
  if (value.contains("tokens")) pair.tokens = read_tokens(value, PairChoice::command);
  return pair;
}

nlohmann::json to_json(const InspectionSetup& setup) {
  if (setup == InspectionSetup{}) return {};
  nlohmann::json result = {{"index", setup.index}};
  if (!setup.task.empty()) result["task"] = nlohmann::json::parse(setup.task);
  if (!setup.tokens.empty()) result["tokens"] = setup.tokens;
  if (!setup.interventions.empty()) result["overrides"] = to_json(setup.interventions);
  if (setup.pair != PairChoice{}) result["pair"] = to_json(setup.pair);
  if (setup.transplant != TransplantChoice{}) result["transplant"] = to_json(setup.transplant);
  if (setup.scale_kept_behind >= 0) result["freeze_scale"] = setup.scale_kept_behind;
  return result;
}

InspectionSetup parse_inspection_setup(const nlohmann::json& json, const std::vector<InterventionTarget>& layers) {
  InspectionSetup setup;
  if (json.is_null()) return setup;
  refuse_unknown_keys(json, {"index", "task", "tokens", "overrides", "pair", "transplant", "freeze_scale"}, "probe");
  setup.index = static_cast<std::uint64_t>(get_integer(json, "index", 0, 0, max_examples, "probe"));
  if (json.contains("task") && !json["task"].is_null()) setup.task = json["task"].dump();
  if (json.contains("tokens")) setup.tokens = read_tokens(json, "probe");
  const nlohmann::json overrides = json.value("overrides", nlohmann::json::array());
  if (!overrides.is_array()) throw BadInput("probe.overrides: expected a list");
  for (const nlohmann::json& command : overrides)
    apply_intervention(setup.interventions, parse_command(command), layers);
  setup.scale_kept_behind = static_cast<int>(get_integer(json, "freeze_scale", -1, -1, max_sequence_length, "probe"));
  if (json.contains("pair")) setup.pair = parse_pair(json["pair"], {});
  if (json.contains("transplant")) setup.transplant = read_fields(json["transplant"], TransplantChoice());
  return setup;
}

}  // namespace afterglow
