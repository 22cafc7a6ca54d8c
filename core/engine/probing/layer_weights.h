// Equivalent attention of the layers there are, from their probes.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace afterglow {

class CaptureReader;
class Trainer;

/// Whether weights of tokens are known for layers of this kind.
bool has_layer_weights(std::string_view kind);

/// Weights of every head of a part, as TokenWeights::weights, from the probes of one sequence. T is the size of
/// `context` (1 where a token bears a fact; only `ska` in masked mode asks) and may be less than the sequence: the rest
/// is cut off, what is left keeps its weights.
std::vector<std::vector<float>> layer_weights(Trainer& trainer, int part, const CaptureReader& read,
                                              std::span<const std::uint8_t> context);

}  // namespace afterglow
