// How a memory of training would do with fewer modes, tokens or rows than it was trained with.
#pragma once
#include <functional>

#include "core/engine/observation/memory_view.h"
#include "core/layers/spectral_memory.h"

namespace afterglow {

/// Fills `less` and `change_now`. `measure` evaluates the model as it is: the error of a forecast (`is_of_error`), else
/// the share of right answers. Calls it about 4 + log2 (K M T) times and restores the memory.
void add_shares(SpectralMemory& memory, MemoryView& view, const std::function<double()>& measure);

}  // namespace afterglow
