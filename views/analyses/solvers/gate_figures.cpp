// The memory horizon of each head at each token, from the product of its decays; the half-life of every head.
#include <algorithm>
#include <cmath>

#include "core/figure/axis.h"
#include "views/analyses/solvers/solver_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"

namespace afterglow {
namespace {

const std::vector<HeadGate>* gates_of(const Observation& observation) {
  return observation.solvers && !observation.solvers->gates.empty() ? &observation.solvers->gates : nullptr;
}

Figure gate_figure(const Observation& observation, std::string id, std::string title, std::string subtitle, Axis y) {
  const double last = static_cast<double>(gates_of(observation)->front().log_decay.size()) - 1;
  return sheet("gate_" + std::move(id), std::move(title), std::move(subtitle),
               {.label = "token", .range = Range{0, std::max(1.0, last)}, .integer_ticks = true}, std::move(y));
}

template <class Value>
void add_heads(Figure& figure, const std::vector<HeadGate>& gates, const Selection& selection, const Value& values) {
  const bool is_there = std::ranges::find(gates, selection.head, &HeadGate::head) != gates.end();
  const int chosen = is_there ? selection.head : gates.front().head;
  for (const HeadGate& gate : gates) {
    const std::vector<double> y = values(gate);
    add_head_line(figure, gate.head, gates.size(), chosen, {counted(y.size()), y});
  }
}

Figure horizon_figure(const Observation& observation, const Selection& selection, std::string id, std::string title,
                      double share) {
  Figure figure = gate_figure(observation, std::move(id), std::move(title), "dashed: full context",
                              {.label = "memory horizon", .unit = "tokens", .scale = Scale::log});
  const std::vector<HeadGate>& gates = *gates_of(observation);
  const std::vector<double> tokens = counted(gates.front().log_decay.size(), 1);
  figure.series.push_back(
      styled(counted_line("full context", tokens, 0, Role::faint, Dash::dashed, 1), {.is_quiet = true}));
  add_heads(figure, gates, selection, [&](const HeadGate& gate) { return memory_horizon(gate.log_decay, share); });
  return figure;
}

/// The text about gates that each channel has, of which a head shows the mean.
std::string mean_text(const HeadGate& gate) {
  return gate.channels > 1 ? ", geometric mean of " + std::to_string(gate.channels) + " channels" : "";
}

}  // namespace

std::string gate_subtitle(const Observation& observation, const Selection&) {
  const std::vector<HeadGate>* gates = gates_of(observation);
  if (!gates) {
    return observation.solvers
               ? "Choose a layer with a gate that fades its memory, such as Gated KalmaNet, Mamba or gated DeltaNet."
               : why_no_layer(observation, LayerTrait::gate);
  }
  return layer_name(observation, observation.solvers->gate_layer) + " · " + heads_text(gates->size()) +
         mean_text(gates->front()) + age_text(observation, observation.solvers->step);
}

std::vector<Figure> gate_figures(const Observation& observation, const Selection& selection, CurveStore&) {
  const std::vector<HeadGate>* gates = gates_of(observation);
  if (!gates || gates->front().log_decay.empty()) return {};
  Figure decay =
      gate_figure(observation, "decay", "Decay", "fraction of memory kept per token" + mean_text(gates->front()),
                  {.label = "gate e^g", .range = Range{0, 1.02}});
  add_heads(decay, *gates, selection,
            [](const HeadGate& gate) { return mapped(gate.log_decay, [](double g) { return std::exp(g); }); });
  return {horizon_figure(observation, selection, "horizon", "Memory horizon (1/e)", std::exp(-1.0)),
          horizon_figure(observation, selection, "hundredth", "Memory horizon (1 %)", 0.01), decay};
}

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
