// The Koopman operator of one head, read from a probing forward pass.
#pragma once
#include <span>

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

/// After the whole sequence; identities are left to the caller. Without eigenvalues where nothing was probed.
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
