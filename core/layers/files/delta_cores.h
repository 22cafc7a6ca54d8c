// `afterglow layer` for the recurrences of the delta-rule family alone, without projections.
#pragma once
#include "core/layers/files/file_run.h"

namespace afterglow {

/// Inputs `q`, `k` [B,T,H,Dk], `v` [B,T,H,Dv], `beta` [B,T,H] where the rule corrects, `g` [B,T,H] or [B,T,H,Dk] where
/// it fades; output `y`.
FileKind deltanet_core();
FileKind gated_deltanet_core();
FileKind gla_core();

}  // namespace afterglow
