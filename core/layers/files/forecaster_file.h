// `afterglow layer` for a whole forecasting model.
#pragma once
#include "core/layers/files/file_run.h"

namespace afterglow {

/// Inputs `x` [B,L,C] and `history` [T,d]; outputs `y`, `memory_tokens` and, with `training`, `new_summary`.
FileKind spectral_memory_file_kind();

}  // namespace afterglow
