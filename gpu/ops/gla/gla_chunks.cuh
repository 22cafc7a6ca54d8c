// Interface of the chunked rules with a decay for every channel of the keys: gated linear attention and, with beta,
// Kimi delta attention.
#pragma once
#include "core/backend/delta.h"

namespace afterglow::scan {

/// Whether the rule has such decays and its sizes suit chunks, from shapes alone.
bool fits_gla(const DeltaInputs& in);
/// Whether this GPU has enough shared memory for the rule with beta; otherwise the recurrence runs.
bool fits_kda(const DeltaInputs& in);
/// Number of floats that the forward pass keeps, and that the backward pass needs in addition (delta_chunks.cuh).
std::int64_t gla_memory(const DeltaInputs& in);
std::int64_t gla_workspace(const DeltaInputs& in);
std::int64_t kda_memory(const DeltaInputs& in);
std::int64_t kda_workspace(const DeltaInputs& in);
/// `exact`: products as accurate as float32, otherwise of numbers rounded to tf32.
void gla_by_chunks(cudaStream_t stream, const DeltaInputs& in, bool exact, float* memory, const Tensor& y,
                   const Tensor& state, bool resume);
void gla_by_chunks_backward(cudaStream_t stream, const DeltaInputs& in, bool exact, const Tensor& dy, float* workspace,
                            const DeltaGrads& out);
void kda_by_chunks(cudaStream_t stream, const DeltaInputs& in, bool exact, float* memory, const Tensor& y,
                   const Tensor& state, bool resume);
void kda_by_chunks_backward(cudaStream_t stream, const DeltaInputs& in, bool exact, const Tensor& dy, float* workspace,
                            const DeltaGrads& out);

}  // namespace afterglow::scan
