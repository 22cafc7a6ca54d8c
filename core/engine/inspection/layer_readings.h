// What a capturing pass says of the parts of a model: layers, their equivalent attention, Koopman operators of heads.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/engine/training/trainer.h"
#include "core/layers/capture_reader.h"
#include "core/layers/captured_layer.h"

namespace afterglow {

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

/// What a capturing pass recorded of one head after the whole sequence.
struct HeadReading {
  HeadSpectrum numbers;  ///< everything except the decompositions
  int rank = 0;
  std::vector<double> A, L, G;  ///< [rank, rank]; A and L are empty if they were not captured
  std::vector<double> query;    ///< of the last token, divided by the key scale; may be empty
};
HeadReading read_head(Trainer& trainer, int part, int head, const CaptureReader& read);
/// Decomposes on the host only; the caller numbers the modes. Without eigenvalues if nothing was captured.
HeadSpectrum decompose(const HeadReading& reading);
/// What the factorisation adds to each eigenvalue of G: the ridge and `jitter` times 1e-4.
double added_to_gram(double ridge, int jitter);

/// Smallest and largest eigenvalue of G + added I.
struct GramRange {
  double smallest = 0, largest = 0;
};
/// From the eigenvalues of G [r], descending; NaN without any.
GramRange gram_range(std::span<const double> gram, double added);

}  // namespace afterglow
