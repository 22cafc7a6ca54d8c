// Reads and writes interventions as commands.
#include "core/recipe/interventions.h"

#include <algorithm>

#include "core/io/error.h"
#include "core/io/json.h"
#include "core/io/json_file.h"
#include "core/recipe/inspection_setup.h"

namespace afterglow {
namespace {

constexpr double max_modulus = 4, max_gamma = 4, max_eta = 100, max_ridge = 1e6;
constexpr std::int64_t max_power = 64;

bool is_fitted(const InterventionTarget& layer) { return layer.rank > 0 && !layer.has_learned_modes; }
bool has_modes(const InterventionTarget& layer) { return layer.rank > 0; }
bool has_heads(const InterventionTarget& layer) { return !layer.has_learned_modes; }

struct LayerCommand {
  std::string_view name, kinds;  ///< and the layers that it can mean, in words
  bool (*fits)(const InterventionTarget& layer);
  void (*carry_out)(LayerIntervention& layer, const json& value, const InterventionTarget& of,
                    const std::string& where);
};

/// The layer that the value names.
const InterventionTarget& meant_layer(const json& value, const std::vector<InterventionTarget>& layers,
                                      const LayerCommand& command) {
  const std::string where(command.name);
  const bool is_any = !value.contains("layer");
  const json wanted = is_any ? json() : value["layer"];
  const InterventionTarget* first = nullptr;
  std::string names;
  for (const InterventionTarget& layer : layers) {
    if (!command.fits(layer)) continue;
    if (!first || (!is_fitted(*first) && is_fitted(layer))) first = &layer;
    const bool is_named = wanted.is_string() && (wanted == layer.label || wanted == layer.scope);
    if (is_named || (wanted.is_number_integer() && wanted == layer.layer)) return layer;
    names += (names.empty() ? "" : ", ") + std::to_string(layer.layer) + " (" + layer.label + ")";
  }
  if (!first) throw BadInput(where, ": this model has no ", command.kinds, " to override");
  if (is_any) return *first;
  throw BadInput(where, ": layer ", wanted.dump(), " is no ", command.kinds, " of this model; choose ", names);
}

/// Modes by their numbers or by their index in the list.
struct MeantModes {
  bool are_numbers;
  const char* key;
};

MeantModes meant_modes(const json& value, const InterventionTarget& of, const std::string& where) {
  if (value.contains("mode") && value.contains("number"))
    throw BadInput(where, R"(: give the mode's "number" or "mode", its place by modulus, not both of them)");
  const bool is_place = value.contains("mode");
  return {!is_place && !of.has_learned_modes, is_place ? "mode" : "number"};
}

ModeEdit& edit_of(HeadIntervention& head, bool is_number, int mode) {
  ModeEdit& edit = head.modes[{is_number, mode}];
  edit.mode = mode;
  edit.is_number = is_number;
  return edit;
}

/// One index, or all of them for -1 or an absent key.
std::vector<int> meant_indices(const json& value, const char* key, int count, const std::string& where) {
  const std::int64_t one = get_integer(value, key, -1, -1, count - 1, where);
  if (one >= 0) return {static_cast<int>(one)};
  std::vector<int> all(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) all[static_cast<std::size_t>(i)] = i;
  return all;
}

/// The number under "to"; nothing for null, which removes an override.
std::optional<double> wanted_number(const json& value, double least, double most, const std::string& where) {
  if (value.contains("to") && value["to"].is_null()) return std::nullopt;
  return get_number(value, "to", std::nullopt, least, most, where);
}

void override_number(LayerIntervention& layer, const json& value, const InterventionTarget& of,
                     const std::string& where) {
  refuse_unknown_keys(value, {"layer", "head", "key", "to", "live"}, where);
  const std::string key = get_choice(value, "key", {"K", "ridge", "gamma", "eta"}, std::nullopt, where);
  if (key == "K") {
    layer.power.reset();
    if (wanted_number(value, 0, static_cast<double>(max_power), where))
      layer.power = static_cast<int>(get_integer(value, "to", std::nullopt, 0, max_power, where));
  } else if (key == "ridge") {
    layer.ridge = wanted_number(value, 0, max_ridge, where);
  } else {
    const std::optional<double> number =
        key == "gamma" ? wanted_number(value, 0, max_gamma, where) : wanted_number(value, -max_eta, max_eta, where);
    for (const int head : meant_indices(value, "head", of.heads, where))
      (key == "gamma" ? layer.heads[head].gamma : layer.heads[head].eta) = number;
  }
}

constexpr const char* roles[] = {"filler", "facts", "question"};  // as Example::context counts them

/// Paints tokens, one or a list, or all of a role with a weight in the layer's sums; null gives them back to its mask.
void weigh_tokens(LayerIntervention& layer, const json& value, const InterventionTarget&, const std::string& where) {
  refuse_unknown_keys(value, {"layer", "tokens", "role", "to", "live"}, where);
  if (value.contains("tokens") == value.contains("role")) throw BadInput(where, R"(: give one of "tokens" and "role")");
  const std::optional<double> weight = wanted_number(value, 0, 1, where);
  const auto paint = [&](std::map<int, double>& weights, int one) {
    weights.erase(one);
    if (weight) weights.emplace(one, *weight);
  };
  if (value.contains("role"))
    return paint(layer.weights.roles, get_enum(value, "role", {std::begin(roles), std::end(roles)}, 0, where));
  for (const json& token : value["tokens"])  // of a number: itself
    paint(layer.weights.tokens, static_cast<int>(get_integer({{"tokens", token}}, "tokens", std::nullopt, 0,
                                                             max_sequence_length - 1, where)));
}

void switch_heads(LayerIntervention& layer, const json& value, const InterventionTarget& of, const std::string& where) {
  refuse_unknown_keys(value, {"layer", "head", "off"}, where);
  const bool off = get_bool(value, "off", true, where);
  for (const int head : meant_indices(value, "head", of.heads, where)) layer.heads[head].is_off = off;
}

void switch_modes(LayerIntervention& layer, const json& value, const InterventionTarget& of, const std::string& where) {
  refuse_unknown_keys(value, {"layer", "head", "number", "mode", "off"}, where);
  const bool off = get_bool(value, "off", true, where);
  const MeantModes meant = meant_modes(value, of, where);
  const std::vector<int> modes = meant_indices(value, meant.key, of.rank, where);
  for (const int head : meant_indices(value, "head", of.heads, where)) {
    HeadIntervention& own = layer.heads[head];
    for (const int mode : modes) edit_of(own, meant.are_numbers, mode).is_off = off;
    if (std::cmp_less(modes.size(), of.rank)) continue;
    for (auto& [name, edit] : own.modes) edit.is_off = off;  // all modes, by number or by index
  }
}

void move_mode(LayerIntervention& layer, const json& value, const InterventionTarget& of, const std::string& where) {
  refuse_unknown_keys(value, {"layer", "head", "number", "mode", "re", "im", "live"}, where);
  const int head = static_cast<int>(get_integer(value, "head", 0, 0, of.heads - 1, where));
  const MeantModes meant = meant_modes(value, of, where);
  const int mode = static_cast<int>(get_integer(value, meant.key, std::nullopt, 0, of.rank - 1, where));
  const double re = get_number(value, "re", std::nullopt, -max_modulus, max_modulus, where);
  const double im = get_number(value, "im", 0.0, -max_modulus, max_modulus, where);
  ModeEdit& edit = edit_of(layer.heads[head], meant.are_numbers, mode);
  edit.is_off = false;
  edit.moved_to = {re, im};
}

constexpr std::string_view operators = "ska layer", modes = "ska layer or Koopman MLP";
constexpr LayerCommand layer_commands[] = {{"override", operators, is_fitted, override_number},
                                           {"mask", operators, is_fitted, weigh_tokens},
                                           {"head_off", "layer with heads", has_heads, switch_heads},
                                           {"mode_off", modes, has_modes, switch_modes},
                                           {"drag_mode", modes, has_modes, move_mode}};

/// Removes entries without effect.
void tidy(Interventions& interventions) {
  for (auto& [index, layer] : interventions.layers) {
    for (auto& [head, edits] : layer.heads)
      std::erase_if(edits.modes, [](const auto& mode) { return !mode.second.is_off && !mode.second.moved_to; });
    std::erase_if(layer.heads, [](const auto& head) { return head.second == HeadIntervention{}; });
  }
  std::erase_if(interventions.layers, [](const auto& layer) { return layer.second == LayerIntervention{}; });
}

json named(const ModeName& mode) {
  return {{"layer", mode.layer}, {"head", mode.head}, {mode.is_number ? "number" : "mode", mode.mode}};
}

}  // namespace

Command drag_mode(const ModeName& name, std::complex<double> to, bool is_live) {
  Command command{"drag_mode", named(name)};
  command.value.update({{"re", to.real()}, {"im", to.imag()}});
  if (is_live) command.value["live"] = true;  // recipes hold none
  return command;
}

Command mode_off(const ModeName& name, bool off) {
  Command command{"mode_off", named(name)};
  command.value["off"] = off;
  return command;
}

HeadIntervention changes_of(const Interventions& interventions, int layer, int head) {
  const auto edited = interventions.layers.find(layer);
  if (edited == interventions.layers.end()) return {};
  const auto own = edited->second.heads.find(head);
  return own == edited->second.heads.end() ? HeadIntervention{} : own->second;
}

void apply_intervention(Interventions& interventions, const Command& given,
                        const std::vector<InterventionTarget>& layers) {
  Interventions changed = interventions;
  if (given.name == "clear_overrides") {
    refuse_unknown_keys(given.value, {}, given.name);
    changed = {};
  } else {
    const auto* command = std::ranges::find(layer_commands, given.name, &LayerCommand::name);
    if (command == std::end(layer_commands)) throw Error(ExitCode::failure, given.name, " is not an intervention");
    const InterventionTarget& of = meant_layer(given.value, layers, *command);
    command->carry_out(changed.layers[of.layer], given.value, of, given.name);
  }
  tidy(changed);
  interventions = std::move(changed);
}

json to_json(const Interventions& interventions) {
  json commands = json::array();
  const auto add = [&](const Command& command) { commands.push_back(to_json(command)); };
  for (const auto& [index, layer] : interventions.layers) {
    if (layer.power) add({"override", {{"layer", index}, {"key", "K"}, {"to", *layer.power}}});
    if (layer.ridge) add({"override", {{"layer", index}, {"key", "ridge"}, {"to", *layer.ridge}}});
    for (const auto& [role, weight] : layer.weights.roles)
      add({"mask", {{"layer", index}, {"role", roles[role]}, {"to", weight}}});
    std::map<double, std::vector<int>> painted;
    for (const auto& [token, weight] : layer.weights.tokens) painted[weight].push_back(token);
    for (const auto& [weight, tokens] : painted) add({"mask", {{"layer", index}, {"tokens", tokens}, {"to", weight}}});
    for (const auto& [head, edit] : layer.heads) {
      const json place = {{"layer", index}, {"head", head}};
      const auto at = [&](const char* name, json more) {
        more.update(place);
        add({name, more});
      };
      if (edit.gamma) at("override", {{"key", "gamma"}, {"to", *edit.gamma}});
      if (edit.eta) at("override", {{"key", "eta"}, {"to", *edit.eta}});
      for (const auto& [name, change] : edit.modes) {
        const ModeName mode{index, head, change.is_number, change.mode};
        if (change.moved_to) add(drag_mode(mode, *change.moved_to));
        if (change.is_off) add({"mode_off", named(mode)});
      }
      if (edit.is_off) at("head_off", json::object());
    }
  }
  return commands;
}

}  // namespace afterglow
