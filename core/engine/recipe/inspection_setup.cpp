// Setups as JSON.
#include "core/engine/recipe/inspection_setup.h"

#include <nlohmann/json.hpp>

#include "core/io/error.h"
#include "core/io/json_file.h"

namespace afterglow {

namespace {
constexpr std::int64_t max_examples = std::int64_t{1} << 53;
constexpr std::int64_t max_sequence_length = 1 << 20;
}  // namespace

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
  const auto list = [&](const char* key) {
    const nlohmann::json found = json.value(key, nlohmann::json::array());
    if (!found.is_array()) throw Error(ExitCode::bad_input, std::string("probe.") + key + ": expected a list");
    return found;
  };
  for (const nlohmann::json& token : list("tokens")) {
    if (!token.is_number_integer())
      throw Error(ExitCode::bad_input, "probe.tokens: " + token.dump() + " is no whole number");
    setup.tokens.push_back(token.get<int>());
  }
  for (const nlohmann::json& command : list("overrides"))
    apply_intervention(setup.interventions, parse_command(command), layers);
  setup.scale_kept_behind = static_cast<int>(get_integer(json, "freeze_scale", -1, -1, max_sequence_length, "probe"));
  if (json.contains("pair")) setup.pair = parse_pair(json["pair"], {}, "probe.pair");
  if (json.contains("transplant")) setup.transplant = parse_transplant(json["transplant"], {}, "probe.transplant");
  return setup;
}

}  // namespace afterglow
