// The door to gated linear attention by chunks.
#pragma once
#include "core/backend/delta.h"

namespace afterglow::scan {

/// Whether the sizes of gated linear attention suit chunks.
bool fits_gla(const DeltaInputs& in);
/// Whether the rule is gated linear attention that goes by chunks.
bool is_chunked_gla(const DeltaInputs& in);
/// Numbers that the forward pass leaves, and that the backward pass needs beside (delta_chunks.cuh).
std::int64_t gla_memory(const DeltaInputs& in);
std::int64_t gla_workspace(const DeltaInputs& in);
/// `exact`: products as accurate as float32, otherwise of numbers rounded to tf32.
void gla_by_chunks(cudaStream_t stream, const DeltaInputs& in, bool exact, float* memory, const Tensor& y,
                   const Tensor& state, bool resume);
void gla_by_chunks_backward(cudaStream_t stream, const DeltaInputs& in, bool exact, const Tensor& dy, float* workspace,
                            const DeltaGrads& out);

}  // namespace afterglow::scan
