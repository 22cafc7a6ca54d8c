// Equivalent attention of one part of the model, read from a capturing pass, with or without interventions.
#pragma once
#include <cstdint>
#include <span>

#include "core/engine/observation/observation.h"

namespace afterglow {

class CaptureReader;
class Trainer;

/// Number of first tokens whose weights are read, because T tokens have T * T weights a head.
inline constexpr int max_weighted_tokens = 256;

/// Whether `part` is a part of the model whose kind of layer has such weights.
bool has_token_weights(const Trainer& trainer, int part);

/// The weights of `part` in the captured pass; without heads if they are not defined. `context` has one entry for each
/// token of the sequence: 1 if it states a fact.
TokenWeights read_token_weights(Trainer& trainer, int part, const CaptureReader& read,
                                std::span<const std::uint8_t> context);

}  // namespace afterglow
