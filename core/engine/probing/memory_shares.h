// What a memory of training would do with fewer modes, tokens or rows than it was trained with.
#pragma once
#include <functional>

#include "core/engine/observation/memory_view.h"
#include "core/layers/spectral_memory.h"

namespace afterglow {

/// Fills `less` and `change_now`. `measure` asks the model as it stands: of a forecast its error (`is_of_error`), else
/// its share of right answers. Asks about 4 + log2 (K M T) times; leaves a usable memory as it was.
void add_shares(SpectralMemory& memory, MemoryView& view, const std::function<double()>& measure);

}  // namespace afterglow
