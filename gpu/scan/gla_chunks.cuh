// The doors to the rules with a decay for every channel of the keys, by chunks: gated linear attention and, with beta,
// Kimi delta attention.
#pragma once
#include "core/backend/delta.h"

namespace afterglow::scan {

/// Whether the rule has such decays and its sizes suit chunks, from shapes alone.
bool fits_gla(const DeltaInputs& in);
/// Whether, with beta, this GPU has room for that as well; without it the recurrence has to do.
bool fits_kda(const DeltaInputs& in);
/// Numbers that the forward pass leaves, and that the backward pass needs beside (delta_chunks.cuh).
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
