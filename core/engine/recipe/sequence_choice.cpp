// The choices as JSON.
#include "core/engine/recipe/sequence_choice.h"

#include <array>
#include <nlohmann/json.hpp>

#include "core/io/error.h"
#include "core/io/json_file.h"

namespace afterglow {

namespace {
constexpr std::int64_t max_place = 1 << 20;

int place_in(const nlohmann::json& value, const char* key, int now, const std::string& where) {
  return static_cast<int>(get_integer(value, key, now, -1, max_place, where));
}
}  // namespace

std::string_view name_of(AnswerMeasure measure) {
  static constexpr std::array names{"logit difference", "probability", "loss"};
  return names[static_cast<std::size_t>(measure)];
}

nlohmann::json to_json(const PairChoice& pair) {
  nlohmann::json result = {
      {"choice", pair.choice}, {"asked", pair.asked}, {"measure", std::string(name_of(pair.measure))}};
  if (!pair.tokens.empty()) result["tokens"] = pair.tokens;
  if (pair.heads) result["heads"] = true;
  return result;
}

nlohmann::json to_json(const TransplantChoice& transplant) {
  return {
      {"layer", transplant.layer}, {"part", transplant.part}, {"token", transplant.token}, {"head", transplant.head}};
}

PairChoice parse_pair(const nlohmann::json& value, PairChoice pair, const std::string& where) {
  refuse_unknown_keys(value, {"choice", "asked", "tokens", "measure", "heads"}, where);
  pair.choice = static_cast<int>(get_integer(value, "choice", pair.choice, 0, max_place, where));
  pair.asked = place_in(value, "asked", pair.asked, where);
  pair.heads = get_bool(value, "heads", pair.heads, where);
  std::vector<std::string> names;
  for (const AnswerMeasure measure : all_measures) names.emplace_back(name_of(measure));
  const std::string named = get_choice(value, "measure", names, std::string(name_of(pair.measure)), where);
  for (const AnswerMeasure measure : all_measures) {
    if (named == name_of(measure)) pair.measure = measure;
  }
  if (!value.contains("tokens")) return pair;
  if (!value["tokens"].is_array()) throw Error(ExitCode::bad_input, where + ".tokens: expected a list");
  pair.tokens.clear();
  for (const nlohmann::json& token : value["tokens"]) {
    if (!token.is_number_integer())
      throw Error(ExitCode::bad_input, where + ".tokens: " + token.dump() + " is no whole number");
    pair.tokens.push_back(token.get<int>());
  }
  return pair;
}

TransplantChoice parse_transplant(const nlohmann::json& value, TransplantChoice transplant, const std::string& where) {
  refuse_unknown_keys(value, {"layer", "part", "token", "head", "live"}, where);
  transplant.layer = place_in(value, "layer", transplant.layer, where);
  transplant.token = place_in(value, "token", transplant.token, where);
  transplant.head = place_in(value, "head", transplant.head, where);
  transplant.part = get_string(value, "part", transplant.part, where);
  return transplant;
}

}  // namespace afterglow
