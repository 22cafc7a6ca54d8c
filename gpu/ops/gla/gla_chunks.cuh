// Interface of the chunked rules with a decay for every channel of the keys: gated linear attention and, with beta,
// Kimi delta attention.
#pragma once
#include "gpu/ops/delta/delta_chunks.cuh"

namespace afterglow::scan {

/// Whether the rule has such decays and its sizes suit chunks, from shapes alone.
bool fits_gla(const DeltaInputs& in);
/// Whether this GPU has enough shared memory for the rule with beta; otherwise the recurrence runs.
bool fits_kda(const DeltaInputs& in);
extern const ChunkedRule gla_rule, kda_rule;

}  // namespace afterglow::scan
