// Reads the memory of training from a capturing pass.
#pragma once
#include "core/engine/observation/memory_view.h"
#include "core/layers/capture_reader.h"

namespace afterglow {

/// The tokens, and the pooling weights over the first `input_length` positions.
void read_memory_captures(const CaptureReader& read, MemoryView& view);

}  // namespace afterglow
