// Parts of a model as captured layers, and their equivalent attention.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/layers/captured_layer.h"

namespace afterglow {

class Trainer;

/// A part that is a layer, after a capturing pass over one sequence: its first `tokens` tokens, or all if 0.
CapturedLayer captured_layer(Trainer& trainer, int part, const CaptureReader& read, int tokens = 0);

/// Weights of every head of a part, as TokenWeights::weights, from the captures of one sequence. T is the size of
/// `context` (1 for a token that states a fact; used by `ska` in masked mode) and may be less than the sequence, which
/// is then cut off without changing the weights of the rest. Empty if weights are not defined.
std::vector<std::vector<float>> layer_weights(Trainer& trainer, int part, const CaptureReader& read,
                                              std::span<const std::uint8_t> context);

/// Number of first tokens whose weights are read, because T tokens have T * T weights a head.
inline constexpr int max_weighted_tokens = 256;

/// Whether `part` is a part of the model whose kind of layer has such weights.
bool has_token_weights(const Trainer& trainer, int part);

/// The weights of `part` in the captured pass; without heads if they are not defined. `context` has one entry for each
/// token of the sequence: 1 if it states a fact.
TokenWeights read_token_weights(Trainer& trainer, int part, const CaptureReader& read,
                                std::span<const std::uint8_t> context);

}  // namespace afterglow
