// The colours of things, and the notation of counts.
#include "views/figures/semantic_colours.h"

#include <cmath>
#include <map>

#include "core/figure/axis.h"
#include "core/recipe/recipe.h"

namespace afterglow {

Ink layer_ink(std::string_view kind) {
  const int index = layer_ink_index(kind);
  return index == quiet_ink ? Ink(Role::faint) : Ink(index);
}

Ink layer_ink(LayerTrait trait) { return layer_ink(first_kind_that_shows(trait)); }

Ink token_ink(TokenRole role) {
  static const std::map<TokenRole, Ink> inks{{TokenRole::value, 0},  {TokenRole::query, 1}, {TokenRole::arrow, 1},
                                             {TokenRole::equals, 1}, {TokenRole::key, 2},   {TokenRole::text, 2},
                                             {TokenRole::action, 4}};
  const auto found = inks.find(role);
  return found == inks.end() ? Ink(Role::faint) : found->second;
}

std::string what_it_needs(LayerTraits any) {
  const Preset* preset = first_preset_that_shows(any);
  return "needs " + words_for(any) + (preset ? "; the preset " + preset->name + " has one" : "");
}

std::string why_no_layer(const Observation& observation, LayerTrait trait) {
  for (const LayerSummary& layer : observation.model.layers) {
    if (shows(layer.kind, trait)) return "Computing: starts within seconds.";
  }
  if (observation.model.layers.empty()) return why_no_model(observation);
  return what_it_needs(trait);
}

std::string why_not_yet(const Observation& observation, std::string_view soon) {
  return observation.model.is_forecaster ? "needs " + words_for(LayerTrait::tokens) : std::string(soon);
}

std::string why_no_model(const Observation& observation) {
  const bool is_at_its_start = observation.running && observation.step == 0 && observation.current == 0;
  if (!observation.model.layers.empty())
    return is_at_its_start ? "The first analysis follows the first step; a large model takes longer." : "";
  if (!observation.events.empty()) return "No model is open. Ctrl O lists what can be opened.";
  return "Opening " + (observation.title.empty() ? "the model" : observation.title) +
         "; a large one or a slow disk takes some seconds.";
}

std::string heads_text(std::size_t heads) { return std::to_string(heads) + (heads == 1 ? " head" : " heads"); }

std::string layer_name(const Observation& observation, int layer) {
  if (layer < 0 || layer >= static_cast<int>(observation.model.layers.size())) return "layer " + std::to_string(layer);
  return observation.model.layers[static_cast<std::size_t>(layer)].label;
}

std::string place_name(const Observation& observation, int layer, int head) {
  const std::string name = layer_name(observation, layer);
  return (name.starts_with("layer") ? name : "layer " + name) + (head >= 0 ? ", head " + std::to_string(head) : "");
}

double colour_reach(double largest) {
  if (!(largest > 0) || !std::isfinite(largest)) return 1;
  const double decade = std::pow(10.0, std::floor(std::log10(largest)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (factor * decade >= largest * (1 - 1e-12)) return factor * decade;
  }
  return largest;
}

std::string age_text(const Observation& observation, std::int64_t step) {
  return step == observation.step ? "" : " · as of step " + grouped_number(step);
}

void add_head_line(Figure& figure, int head, std::size_t heads, int chosen, Curve curve) {
  constexpr std::size_t max_named = 8;
  const bool are_many = heads > max_named, is_chosen = head == chosen;
  if (are_many) figure.labels = LabelPlacement::none;
  figure.series.push_back(Line{.name = "head " + std::to_string(head),
                               .curve = std::move(curve),
                               .ink = are_many && !is_chosen ? Ink(Role::faint) : head_ink(head),
                               .width = is_chosen ? 2.4 : 1.3});
}

double max_magnitude(std::span<const float> numbers) {
  double largest = 0;
  for (const float number : numbers) {
    if (std::isfinite(number)) largest = std::max(largest, std::abs(static_cast<double>(number)));
  }
  return largest;
}

HeatMap signed_map(std::string name, int rows, int columns, std::span<const float> numbers, double largest) {
  const double reach = colour_reach(largest);
  return {.name = std::move(name),
          .rows = rows,
          .cols = columns,
          .cells = std::vector<double>(numbers.begin(), numbers.end()),
          .map = ColourMap::diverging,
          .value = {.range = Range{-reach, reach}}};
}

}  // namespace afterglow
