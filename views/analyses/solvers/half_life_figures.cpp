// The half-life of every head of every layer.
#include <algorithm>
#include <cmath>

#include "views/analyses/solvers/solver_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"

namespace afterglow {

namespace {

constexpr double most_tokens_shown = 1e6, many_tokens = 100;  // tokens

}  // namespace

std::string half_lives_subtitle(const Observation& observation, const Selection&) {
  if (!observation.solvers || observation.solvers->half_lives.empty())
    return why_no_layer(observation, LayerTrait::gate);
  std::size_t heads = 0, keeping = 0;
  for (const LayerHalfLives& layer : observation.solvers->half_lives) {
    for (const double half_life : layer.of_heads) {
      heads += !std::isnan(half_life);
      keeping += half_life > many_tokens;
    }
  }
  return std::to_string(keeping) + " of " + heads_text(heads) + " keep half of a token for more than " +
         std::to_string(static_cast<int>(many_tokens)) + " tokens; cells without colour do not fade" +
         age_text(observation, observation.solvers->step);
}

std::vector<Figure> half_lives_figures(const Observation& observation, const Selection&, CurveStore&) {
  if (!observation.solvers || observation.solvers->half_lives.empty()) return {};
  const std::vector<LayerHalfLives>& layers = observation.solvers->half_lives;
  Figure figure = sheet("half_lives", "Half-life of each head", "", {.label = "head", .integer_ticks = true},
                        {.label = "layer"}, LabelPlacement::none);
  HeatMap map{.name = "half-life",
              .value = {.label = "half-life", .unit = "tokens", .scale = Scale::log},
              .nan_is_blank = true};
  for (const LayerSummary& layer : observation.model.layers) map.cols = std::max(map.cols, layer.heads);
  std::vector<double> cells;
  for (std::size_t i = 0; i < observation.model.layers.size(); ++i) {
    const LayerSummary& layer = observation.model.layers[i];
    if (layer.heads == 0) continue;
    map.row_labels.push_back(layer.label);
    figure.y.ticks.push_back({static_cast<double>(map.rows++), layer.label});
    const auto known = std::ranges::find(layers, static_cast<int>(i), &LayerHalfLives::layer);
    for (std::size_t head = 0; head < static_cast<std::size_t>(map.cols); ++head) {
      const bool is_there = known != layers.end() && head < known->of_heads.size();
      cells.push_back(is_there ? std::min(known->of_heads[head], most_tokens_shown) : std::nan(""));
    }
  }
  map.cells = std::move(cells);
  figure.series.emplace_back(std::move(map));
  return {figure};
}

}  // namespace afterglow
