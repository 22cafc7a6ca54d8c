// Equivalent attention of one part of the model, read from a probing pass, with or without interventions in force.
#pragma once
#include <cstdint>
#include <span>

#include "core/engine/observation/observation.h"

namespace afterglow {

class CaptureReader;
class Trainer;

/// Tokens of a sequence whose weights are read: the first ones, as the weights of T tokens are T * T numbers a head.
inline constexpr int max_weighted_tokens = 256;

/// Whether `part` is a part of the model whose kind of layer has such weights.
bool has_token_weights(const Trainer& trainer, int part);

/// The weights of `part` in the pass that `read` holds; without heads where the part has none. `context` has one entry
/// for each token of the sequence: 1 where it bears a fact.
TokenWeights read_token_weights(Trainer& trainer, int part, const CaptureReader& read,
                                std::span<const std::uint8_t> context);

}  // namespace afterglow
