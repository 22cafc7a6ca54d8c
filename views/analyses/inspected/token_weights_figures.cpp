// A matrix with the reading token down and the read token to the right; the colours are symmetric if weights have
// signs.
#include <algorithm>
#include <cmath>

#include "core/figure/axis.h"
#include "views/analyses/inspected/inspection_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"

namespace afterglow {
namespace {

bool follows_interventions(const Observation& observation) {
  const InspectedView* inspected = observation.inspected.get();
  return inspected && inspected->is_edited() && inspected->weights.layer == observation.token_weights->layer &&
         inspected->weights.weights.size() == observation.token_weights->weights.size();
}

/// With the present interventions.
const TokenWeights& seen_weights(const Observation& observation) {
  return follows_interventions(observation) ? observation.inspected->weights : *observation.token_weights;
}

std::string kind_of(const Observation& observation, int layer) {
  const auto& layers = observation.model.layers;
  return layer >= 0 && layer < static_cast<int>(layers.size()) ? layers[static_cast<std::size_t>(layer)].kind : "";
}

/// Softmax weights are shares; others have signs and no fixed sum.
bool are_shares(const Observation& observation) {
  return shows(kind_of(observation, observation.token_weights->layer), LayerTrait::token_shares);
}

/// The meaning of the weights, with the name of the layer's own sum, after a separator. An edited head answers with its
/// own gain, which is not part of the weights.
std::string meaning_of(const Observation& observation, int head) {
  const int layer = observation.token_weights->layer;
  const std::string kind = kind_of(observation, layer), edited = follows_interventions(observation) ? " · edited" : "";
  if (are_shares(observation)) return " · attention" + edited;
  if (!shows(kind, LayerTrait::koopman_heads)) return " · y = Σ w v" + edited;
  HeadSpectrum of;
  of.layer = layer;
  of.head = head;
  const InspectedHead* inspected = edited.empty() ? nullptr : inspected_head(observation, of);
  return " · y = η Σ w v" + (inspected ? " · edited, η = " + number_text(inspected->spectrum.eta, 3) : edited);
}

/// The weights to show; nullptr without any, or if their number is not a square.
const std::vector<float>* shown_weights(const Observation& observation, const Selection& selection) {
  const int head = selected_weights_head(observation, selection);
  if (head < 0) return nullptr;
  const TokenWeights& all = seen_weights(observation);
  const std::vector<float>& weights = all.weights[static_cast<std::size_t>(head)];
  const auto tokens = static_cast<std::size_t>(std::max(all.tokens, 0));
  return tokens > 0 && weights.size() == tokens * tokens ? &weights : nullptr;
}

std::vector<std::string> token_labels(const Observation& observation, std::size_t tokens) {
  std::vector<std::string> labels;
  const Trace* trace = observation.trace.get();
  if (!trace || trace->tokens.size() < tokens) return labels;
  for (std::size_t t = 0; t < tokens; ++t) labels.push_back(trace->tokens[t].label);
  return labels;
}

/// The end of the colour scale: nine tenths of the rows stay below, so that one large cell does not set the scale. The
/// first tokens read few others and do not count if there are more.
double reach_of(const std::vector<float>& weights, int tokens) {
  std::vector<double> reaches;
  const auto T = static_cast<std::size_t>(tokens);
  for (std::size_t t = std::min<std::size_t>(8, T / 2); t < T; ++t) {
    double largest = 0;
    for (std::size_t s = 0; s < T; ++s) {
      const double w = std::abs(static_cast<double>(weights[t * T + s]));
      if (std::isfinite(w)) largest = std::max(largest, w);
    }
    reaches.push_back(largest);
  }
  std::sort(reaches.begin(), reaches.end());
  return colour_reach(reaches[(reaches.size() - 1) * 9 / 10]);
}

std::string beyond_text(const std::vector<float>& weights, double reach) {
  const auto is_beyond = [&](float w) { return std::abs(static_cast<double>(w)) > reach * (1 + 1e-6); };
  const auto cells = std::ranges::count_if(weights, is_beyond);
  if (cells == 0) return "";
  return " · " + std::to_string(cells) + (cells == 1 ? " cell" : " cells") + " outside the colour range";
}

/// Lines above and below the row of the selected token.
void mark_row(Figure& figure, const Observation& observation, const Selection& selection) {
  const int token = selected_token(observation, selection);
  if (token < 0 || token >= observation.token_weights->tokens) return;
  for (const double edge : {token - 0.5, token + 0.5}) add_level(figure, edge, "", Role::accent, Dash::solid);
}

}  // namespace

int selected_weights_head(const Observation& observation, const Selection& selection) {
  if (!observation.token_weights || observation.token_weights->weights.empty()) return -1;
  return std::clamp(selection.head, 0, static_cast<int>(observation.token_weights->weights.size()) - 1);
}

std::string token_weights_subtitle(const Observation& observation, const Selection& selection) {
  if (!observation.token_weights)
    return why_not_yet(observation, "Computing the weights of the tokens: starts within seconds.");
  const std::string layer = layer_name(observation, observation.token_weights->layer);
  const int head = selected_weights_head(observation, selection);
  if (head < 0)
    return "Choose an attention, SKA or Mamba-2 layer in the list on the left to see which tokens it reads.";
  const std::string place = layer + " · head " + std::to_string(head);
  if (!shown_weights(observation, selection)) return place + ": its weights are not finite";
  return place + meaning_of(observation, head) + age_text(observation, seen_weights(observation).step);
}

std::vector<Figure> token_weights_figures(const Observation& observation, const Selection& selection, CurveStore&) {
  const std::vector<float>* weights = shown_weights(observation, selection);
  if (!weights) return {};
  const int tokens = seen_weights(observation).tokens;
  const double reach = are_shares(observation) ? 1 : reach_of(*weights, tokens);
  Figure figure = sheet(
      "token_weights", "Token weights", token_weights_subtitle(observation, selection) + beyond_text(*weights, reach),
      {.label = "source token", .integer_ticks = true}, {.label = "query token", .integer_ticks = true});
  figure.subject =
      place_name(observation, observation.token_weights->layer, selected_weights_head(observation, selection));
  HeatMap map{.name = "weight"};
  map.rows = map.cols = tokens;
  map.cells = std::vector<double>(weights->begin(), weights->end());
  map.map = are_shares(observation) ? ColourMap::sequential : ColourMap::diverging;
  map.value.label = "weight";
  map.value.range = Range{are_shares(observation) ? 0 : -reach, reach};
  map.row_labels = map.col_labels = token_labels(observation, static_cast<std::size_t>(tokens));
  map.nan_is_blank = true;
  figure.series.emplace_back(std::move(map));
  mark_row(figure, observation, selection);
  return {figure};
}

}  // namespace afterglow
