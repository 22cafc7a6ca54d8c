// Parts of a model as layers with captures, and their equivalent attention.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/layers/captured_layer.h"

namespace afterglow {

class Trainer;

/// A part that is a layer, after a capturing pass over one sequence: the first `tokens` tokens of it, all where 0.
CapturedLayer captured_layer(Trainer& trainer, int part, const CaptureReader& read, int tokens = 0);

/// Whether weights of tokens are known for layers of this kind.
bool has_layer_weights(std::string_view kind);

/// Weights of every head of a part, as TokenWeights::weights, from the captures of one sequence. T is the size of
/// `context` (1 where a token bears a fact; only `ska` in masked mode asks) and may be less than the sequence: the rest
/// is cut off, what is left keeps its weights. Empty where no weights are known.
std::vector<std::vector<float>> layer_weights(Trainer& trainer, int part, const CaptureReader& read,
                                              std::span<const std::uint8_t> context);

}  // namespace afterglow
