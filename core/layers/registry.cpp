// The list of layer kinds, and look-ups by the name of a kind.
#include <nlohmann/json.hpp>

#include "core/io/error.h"
#include "core/io/named.h"
#include "core/layers/forecaster.h"
#include "core/layers/layer_kind.h"

namespace afterglow {

// Each is at the end of its layer's own file. A new layer adds its function to these and to the list below.
LayerKind ska_kind(), koopman_mlp_kind(), mamba_kind(), mamba2_kind(), mamba3_kind(), linear_attention_kind(),
    gka_kind(), gated_deltanet_kind(), deltanet_kind(), kda_kind(), gla_kind(), kalman_kind(), attention_kind(),
    swiglu_kind(), mlp_kind(), experts_kind(), parallel_kind(), shared_block_kind(), short_conv_kind(), sessa_kind();

namespace {

LayerTraits all_traits(const LayerKind& kind) {
  LayerTraits traits = kind.shows;
  if (kind.readers.systems) traits = traits | LayerTrait::ridge_systems;
  if (kind.readers.gates) traits = traits | LayerTrait::gate;
  if (kind.readers.state_modes) traits = traits | LayerTrait::state_modes;
  if (kind.readers.pairs) traits = traits | LayerTrait::pairs;
  return traits;
}

}  // namespace

const std::vector<LayerKind>& layer_kinds() {
  static const std::vector<LayerKind> kinds = [] {
    std::vector<LayerKind> all;
    for (const auto& described :
         {ska_kind,          koopman_mlp_kind,    mamba_kind,    mamba2_kind,  mamba3_kind, linear_attention_kind,
          gka_kind,          gated_deltanet_kind, deltanet_kind, kda_kind,     gla_kind,    kalman_kind,
          attention_kind,    swiglu_kind,         mlp_kind,      experts_kind, sessa_kind,  parallel_kind,
          shared_block_kind, short_conv_kind}) {
      all.push_back(described());
      all.back().shows = all_traits(all.back());
    }
    return all;
  }();
  return kinds;
}

const LayerKind* find_layer_kind(std::string_view name) { return find_by(layer_kinds(), name, &LayerKind::name); }

const LayerReaders& readers_of(std::string_view kind) {
  static const LayerReaders none;
  const LayerKind* known = find_layer_kind(kind);
  return known ? known->readers : none;
}

bool mixes_tokens(std::string_view kind) {
  const LayerKind* known = find_layer_kind(kind);
  return known && known->mixes_tokens;
}

bool shows(std::string_view kind, LayerTraits any) {
  const LayerKind* known = find_layer_kind(kind);
  return (known ? known->shows : traits_of_part(kind)).overlaps(any);
}

std::string_view first_kind_that_shows(LayerTrait trait) {
  const LayerKind* found = find_where(layer_kinds(), [&](const LayerKind& k) { return k.shows.overlaps(trait); });
  return found ? std::string_view(found->name) : std::string_view();
}

std::string words_for(LayerTraits any) {
  static const std::vector<std::pair<LayerTrait, std::string>> words{
      {LayerTrait::koopman_heads, "an SKA layer"},
      {LayerTrait::koopman_modes, "a Koopman MLP"},
      {LayerTrait::ridge_systems, "a layer that solves ridge systems"},
      {LayerTrait::state_modes, "a layer with a recurrent state"},
      {LayerTrait::gate, "a layer whose memory fades by a gate"},
      {LayerTrait::feedback, "a layer with feedback"},
      {LayerTrait::token_shares, "a layer with softmax attention"},
      {LayerTrait::training_memory, "a memory of training"},
      {LayerTrait::series, "a model that forecasts a series"},
      {LayerTrait::tokens, "a model that reads tokens"},
      {LayerTrait::pairs, "a layer that stores keys with values"}};
  std::vector<std::string> named;
  for (const auto& [trait, word] : words) {
    if (any.overlaps(trait)) named.push_back(word);
  }
  std::string text;
  for (std::size_t i = 0; i < named.size(); ++i)
    text += (i == 0 ? "" : i + 1 == named.size() ? " or " : ", ") + named[i];
  return text;
}

int layer_ink_index(std::string_view kind) {
  const LayerKind* known = find_layer_kind(kind);
  return known ? known->ink : quiet_ink;
}

nlohmann::json small_layer_config(const LayerKind& kind, std::int64_t width) {
  const std::int64_t head = width % 16 == 0 ? 16 : width;
  return kind.small_config({width, width / head, head});
}

std::unique_ptr<Layer> make_layer(std::string_view kind, const nlohmann::json& config,
                                  const ParameterScope& parameters) {
  const LayerKind& known =
      entry_named(layer_kinds(), kind, &LayerKind::name, ExitCode::bad_input, "there is no layer kind ");
  std::unique_ptr<Layer> layer = known.make(config, parameters);
  layer->set_kind(known.name);
  return layer;
}

}  // namespace afterglow
