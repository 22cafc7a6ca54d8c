// Reads names of layers, and finds in an observation which layers a plot can show.
#include "app/cli/layer_choice.h"

#include <algorithm>
#include <vector>

#include "core/engine/analyses/influence/influence_view.h"
#include "core/engine/analyses/solvers/solver_view.h"
#include "core/io/error.h"
#include "core/io/named.h"
#include "core/io/number_text.h"
#include "views/figures/semantic_colours.h"

namespace afterglow {
namespace {

/// "1 ska" as the user types it: "1.ska".
std::string typed_name(const LayerSummary& layer) {
  std::string name = layer.label;
  std::ranges::replace(name, ' ', '.');
  return name;
}

std::string shown_name(const ModelSummary& model, int layer) {
  return std::to_string(layer) + " (" + typed_name(model.layers[static_cast<std::size_t>(layer)]) + ")";
}

std::string list_of(const ModelSummary& model, const std::vector<int>& layers) {
  return joined(names_of(layers, [&](int layer) { return shown_name(model, layer); }), ", ");
}

std::vector<int> all_layers(const ModelSummary& model) {
  std::vector<int> layers(model.layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i] = static_cast<int>(i);
  return layers;
}

bool is_meant(const std::string& name, const LayerSummary& layer, int index) {
  if (const std::optional<std::int64_t> number = parse_whole_number(name)) return *number == index;
  return name == layer.label || name == typed_name(layer) || name == layer.scope || name == layer.kind;
}

/// The layers that the results show; for results of the selected layer, that layer. Empty: the plot shows no single
/// layer.
std::vector<int> shown_layers(const PlotKind& kind, const Observation& observation) {
  const AnalysisSet analyses = kind.analyses;
  std::vector<int> layers;
  const auto add = [&](int layer) {
    if (layer >= 0 && std::ranges::find(layers, layer) == layers.end()) layers.push_back(layer);
  };
  if (has(analyses, Analysis::spectra) && observation.spectra) {
    for (const HeadSpectrum& head : observation.spectra->heads) add(head.layer);
    // Few plots show a layer without heads: those that name it when it is selected.
    for (const MlpSpectrum& mlp : observation.spectra->mlps) {
      const std::string& label = observation.model.layers[static_cast<std::size_t>(mlp.layer)].label;
      if (kind.subtitle(observation, {.layer = mlp.layer}).find(label) != std::string::npos) add(mlp.layer);
    }
  }
  if (!layers.empty()) return layers;
  if (has(analyses, Analysis::solvers) && observation.solvers) {
    add(observation.solvers->layer);
    add(observation.solvers->gate_layer);
  }
  if (has(analyses, Analysis::trace) && observation.trace) add(observation.trace->layer);
  if (has(analyses, Analysis::influence) && observation.influence) {
    for (const RoutingView& routing : observation.influence->routing) add(routing.layer);
    for (const InfluenceTail& tail : observation.influence->blocks) add(tail.layer);
  }
  return layers;
}

}  // namespace

int layer_of_name(const std::string& name, const ModelSummary& model) {
  if (name.empty()) return -1;
  std::vector<int> meant;
  for (const int layer : all_layers(model)) {
    if (is_meant(name, model.layers[static_cast<std::size_t>(layer)], layer)) meant.push_back(layer);
  }
  if (meant.size() == 1) return meant.front();
  throw UsageError("--layer ", name, meant.empty() ? ": there is no such layer" : " is not one layer", " in ",
                   model.name, "; there are ", list_of(model, meant.empty() ? all_layers(model) : meant));
}

void require_fit(const PlotKind& kind, const Observation& observation) {
  if (fits(kind, observation.model)) return;
  throw BadInput("plot ", kind.id, " has nothing to show of ", observation.preset, ": ", what_it_needs(kind.needs));
}

std::string layers_that_fit(const PlotKind& kind, const ModelSummary& model) {
  std::vector<int> layers = all_layers(model);
  std::erase_if(layers,
                [&](int layer) { return !shows(model.layers[static_cast<std::size_t>(layer)].kind, kind.needs); });
  return layers.empty() ? "" : "; --layer takes " + list_of(model, layers);
}

void require_shown(const PlotKind& kind, const Observation& observation, int layer, int head, int token) {
  const ModelSummary& model = observation.model;
  const std::vector<int> layers = shown_layers(kind, observation);
  const std::string plot = "plot " + std::string(kind.id);
  if (layer >= 0 && !layers.empty() && std::ranges::find(layers, layer) == layers.end())
    throw UsageError(plot, " has nothing to show of layer ", shown_name(model, layer), "; it has of ",
                     list_of(model, layers));
  const int shown = layer >= 0 || layers.empty() ? layer : layers.front();
  const int heads = shown >= 0 ? model.layers[static_cast<std::size_t>(shown)].heads : 0;
  if (head > 0 && head >= heads) {
    const std::string there_are =
        heads > 0 ? "layer " + shown_name(model, shown) + " has heads 0 to " + std::to_string(heads - 1)
                  : "there is no layer with heads that it shows";
    throw UsageError(plot, ": there is no head ", head, "; ", there_are);
  }
  const std::size_t tokens = observation.trace ? observation.trace->steps.size() : 0;
  if (token >= 0 && tokens > 0 && static_cast<std::size_t>(token) >= tokens)
    throw UsageError(plot, ": there is no token ", token, "; the sequence has tokens 0 to ", tokens - 1);
}

}  // namespace afterglow
