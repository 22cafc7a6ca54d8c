// The Koopman operator of one head, read from a probing forward pass.
#pragma once
#include <span>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/engine/training/trainer.h"
#include "core/layers/capture_reader.h"

namespace afterglow {

/// Settings of the layer that the pass ran with.
struct HeadSettings {
  int power = 2;
  double ridge = 1e-3;
};
HeadSettings head_settings(const Trainer& trainer, int part);

/// What a probing pass left of one head after the whole sequence.
struct HeadReading {
  HeadSpectrum numbers;  ///< all but what is decomposed
  int rank = 0;
  std::vector<double> A, L, G;  ///< [rank, rank]; A and L are empty where nothing was probed
  std::vector<double> query;    ///< of the last token, divided by the key scale; or empty
};
HeadReading read_head(Trainer& trainer, int part, int head, const HeadSettings& settings, const CaptureReader& read);
/// The decompositions, which ask nothing of the device; identities are left to the caller. Without eigenvalues where
/// nothing was probed.
HeadSpectrum decompose(const HeadReading& reading);
/// Both.
HeadSpectrum read_head_spectrum(Trainer& trainer, int part, int head, const HeadSettings& settings,
                                const CaptureReader& read);

/// What the factorisation adds to each eigenvalue of G: the ridge and `jitter` times 1e-4.
double added_to_gram(double ridge, int jitter);

/// Smallest and largest eigenvalue of G + added I.
struct GramRange {
  double smallest = 0, largest = 0;
};
/// From the eigenvalues of G [r], descending; NaN without any.
GramRange gram_range(std::span<const double> gram, double added);

}  // namespace afterglow
