// Parts of a model as captured layers, and their equivalent attention.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/layers/captured_layer.h"

namespace afterglow {

class Trainer;

/// A part that is a layer, after a capturing pass over one sequence: its first `tokens` tokens, or all if 0.
CapturedLayer captured_layer(Trainer& trainer, int part, const CaptureReader& read, int tokens = 0);

/// Whether token weights are defined for layers of this kind.
bool has_layer_weights(std::string_view kind);

/// Weights of every head of a part, as TokenWeights::weights, from the captures of one sequence. T is the size of
/// `context` (1 for a token that states a fact; used by `ska` in masked mode) and may be less than the sequence, which
/// is then cut off without changing the weights of the rest. Empty if weights are not defined.
std::vector<std::vector<float>> layer_weights(Trainer& trainer, int part, const CaptureReader& read,
                                              std::span<const std::uint8_t> context);

}  // namespace afterglow
