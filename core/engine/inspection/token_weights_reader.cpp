// Cuts the sequence to the shown tokens and calls the layer's reader.
#include "core/engine/inspection/token_weights_reader.h"

#include <algorithm>

#include "core/engine/inspection/layer_weights.h"
#include "core/engine/training/trainer.h"

namespace afterglow {

bool has_token_weights(const Trainer& trainer, int part) {
  const auto& parts = trainer.parts();
  return part >= 0 && part < static_cast<int>(parts.size()) &&
         has_layer_weights(parts[static_cast<std::size_t>(part)].kind);
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
