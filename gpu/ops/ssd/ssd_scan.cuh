// Shared by the forward and backward passes of the selective scan: sizes and inputs, destinations of gradients, and the
// sums over the parts that blocks leave. A very short scan runs its recurrence (ssd_scan.cu); others, and all
// gradients, are one chunk or many, computed by matrix products (ssd_chunks.cu, ssd_chunks_backward.cu).
#pragma once
#include "core/backend/scan.h"
#include "gpu/tile/device.cuh"

namespace afterglow::scan {

using device::Bf16;
using device::Rows;
using device::Sink;
using device::SinkOf;

struct ScanSizes {
  int batch, length, heads, groups, width, states;
  int chunks, group;         // chunks of a sequence; heads that share B and C
  int passes, group_states;  // `states` are those of one pass; group_states all states, which are contiguous
  int own_states;            // of this pass; others are zero
};
/// With chunks of `chunk` tokens.
ScanSizes sizes_of(const ScanInputs& in, int chunk);

/// The inputs of a scan's steps.
struct ScanSteps {
  Rows<float> dt, log_decay, lag;
  const float *A_log = nullptr, *D = nullptr;
};
/// T is the stored type of inputs, outputs and their gradients.
template <class T>
struct ScanArraysOf : ScanSteps {
  Rows<T> x, B, C;
  const T* dy = nullptr;
};
using ScanArrays = ScanArraysOf<float>;
ScanSteps steps_of(const ScanInputs& in);
template <class T = float>
ScanArraysOf<T> arrays_of(const ScanInputs& in) {
  return {steps_of(in), device::rows_of<T>(in.x), device::rows_of<T>(in.B), device::rows_of<T>(in.C)};
}

/// Gradients of a token's step: of dt; with a lag also of log_decay, and of lag at the token before it.
template <bool lagged>
constexpr int step_kinds = lagged ? 3 : 1;
inline int kinds_of(const ScanInputs& in) { return in.lag.defined() ? step_kinds<true> : step_kinds<false>; }

/// Partial sums of gradients that several blocks share.
struct ScanParts {
  float* shared;   // [B,T,groups,sharers,2N]: of dB and dC; null when blocks wrote them directly
  float* steps;    // [B,T,H,tiles,kinds]
  float* scalars;  // [H,2,several]: of dA_log and dD
  int sharers, tiles, several, kinds;
};
/// Adds the parts in order and writes every gradient but that of x: those of B and C in the columns of a pass; those of
/// steps are added to the earlier passes'; that of D, which does not depend on states, by the first pass.
void sum_parts(cudaStream_t stream, const ScanSizes& s, const ScanInputs& in, const ScanParts& parts, int pass,
               const ScanGrads& out);
/// The same rows from a column on; null stays null.
template <class T>
Rows<T> from_column(Rows<T> rows, int column) {
  if (rows.data != nullptr) rows.data += column;
  return rows;
}

/// Whether the scan runs by chunks, from its sizes alone.
bool goes_by_chunks(const ScanInputs& in);
/// Whether its inputs and outputs may be bfloat16 when products are not exact.
bool stores_narrow(const ScanInputs& in);
/// Whether the whole sequence is one chunk, which needs no state passing, from its sizes alone. A scan that resumes
/// from a state or keeps one runs its recurrence, as pieces of it do.
bool is_one_chunk(const ScanInputs& in);
/// Number of floats that its backward pass needs.
std::int64_t alone_workspace(const ScanInputs& in);
void scan_alone(cudaStream_t stream, const ScanInputs& in, bool exact, const Tensor& y);
void scan_alone_backward(cudaStream_t stream, const ScanInputs& in, bool exact, const Tensor& dy, float* workspace,
                         const ScanGrads& out);
/// Number of floats that the chunked forward pass keeps, and the backward pass.
std::int64_t chunk_memory(const ScanInputs& in);
std::int64_t chunk_workspace(const ScanInputs& in);
/// `exact`: products as accurate as float32, otherwise of numbers rounded to tf32.
void scan_by_chunks(cudaStream_t stream, const ScanInputs& in, bool exact, float* memory, const Tensor& y,
                    const Tensor& state, bool resume);
void scan_by_chunks_backward(cudaStream_t stream, const ScanInputs& in, bool exact, const Tensor& dy, float* workspace,
                             const ScanGrads& out);

}  // namespace afterglow::scan
