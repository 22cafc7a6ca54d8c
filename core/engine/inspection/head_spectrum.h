// The Koopman operator of one head, read from a capturing forward pass.
#pragma once
#include <span>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/engine/training/trainer.h"
#include "core/layers/capture_reader.h"

namespace afterglow {

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
