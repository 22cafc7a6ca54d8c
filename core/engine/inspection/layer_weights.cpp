// Calls the readers of the layers (core/layers) for the parts of a trained model.
#include "core/engine/inspection/layer_weights.h"

#include <algorithm>
#include <limits>

#include "core/engine/training/trainer.h"
#include "core/layers/layer_kind.h"

namespace afterglow {

namespace {

void blank_future(std::vector<float>& weights, std::size_t tokens) {
  if (weights.empty()) return;
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t s = t + 1; s < tokens; ++s) weights[t * tokens + s] = std::numeric_limits<float>::quiet_NaN();
  }
}

}  // namespace

CapturedLayer captured_layer(Trainer& trainer, int part, const CaptureReader& read, int tokens) {
  const ModelPart& info = trainer.parts()[static_cast<std::size_t>(part)];
  const Layer& layer = trainer.layer_of(info);
  // Every layer that mixes tokens captures its values [1,T,..].
  if (tokens == 0) tokens = static_cast<int>(read.shape(info.scope + ".values")[1]);
  return {layer, read, info.scope, tokens, {}, [&trainer] { trainer.analysis_threads().yield(); }};
}

std::vector<std::vector<float>> layer_weights(Trainer& trainer, int part, const CaptureReader& read,
                                              std::span<const std::uint8_t> context) {
  std::vector<std::vector<float>> result;
  const auto reader = readers_of(trainer.parts()[static_cast<std::size_t>(part)].kind).token_weights;
  if (!reader) return result;
  CapturedLayer layer = captured_layer(trainer, part, read, static_cast<int>(context.size()));
  layer.context = context;
  for (int head = 0; head < layer.heads(); ++head) {
    const WeightMatrix weights = reader(layer, head);
    std::vector<float>& shown = result.emplace_back(weights.begin(), weights.end());
    if (!layer.layer.reads_later_tokens()) blank_future(shown, context.size());
    layer.yield();
  }
  return result;
}

bool has_token_weights(const Trainer& trainer, int part) {
  const auto& parts = trainer.parts();
  return part >= 0 && part < static_cast<int>(parts.size()) && readers_of(parts[part].kind).token_weights != nullptr;
}

TokenWeights read_token_weights(Trainer& trainer, int part, const CaptureReader& read,
                                std::span<const std::uint8_t> context) {
  TokenWeights result;
  result.step = trainer.finished_steps();
  result.layer = part;
  result.tokens = std::min(max_weighted_tokens, static_cast<int>(context.size()));
  if (!has_token_weights(trainer, part)) return result;
  result.weights = layer_weights(trainer, part, read, context.first(static_cast<std::size_t>(result.tokens)));
  result.heads = static_cast<int>(result.weights.size());
  return result;
}

}  // namespace afterglow
