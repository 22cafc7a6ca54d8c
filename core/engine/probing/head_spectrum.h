// The Koopman operator of one head, read from a probing forward pass.
#pragma once
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

/// Smallest and largest eigenvalue of a Gram matrix G [r*r] with what the factorisation added: ridge and `jitter`
/// times 1e-4.
struct GramRange {
  double smallest = 0, largest = 0;
};
GramRange gram_range(std::vector<double> G, int r, double ridge, int jitter);

}  // namespace afterglow
