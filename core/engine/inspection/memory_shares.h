// How a memory of training would do with fewer modes, tokens or rows than it was trained with.
#pragma once
#include <functional>

#include "core/engine/observation/memory_view.h"
#include "core/layers/capture_reader.h"
#include "core/layers/spectral_memory.h"

namespace afterglow {

/// Fills `less` and `change_now`. `measure` evaluates the model as it is: the error of a forecast (`is_of_error`), else
/// the share of right answers. Calls it about 4 + log2 (K M T) times and restores the memory.
void add_shares(SpectralMemory& memory, MemoryView& view, const std::function<double()>& measure);

/// The tokens, and the pooling weights over the first `input_length` positions.
void read_memory_captures(const CaptureReader& read, MemoryView& view);

}  // namespace afterglow
