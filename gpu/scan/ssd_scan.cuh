// What the two ways through the selective scan share: its sizes and inputs, where gradients go, and the sums of the
// parts that blocks leave. A very short scan walks its recurrence (ssd_scan.cu); others are one chunk or many, whose
// tokens meet in products (ssd_chunks.cu, ssd_chunks_backward.cu).
#pragma once
#include "core/backend/scan.h"
#include "gpu/device/device.cuh"

namespace afterglow::scan {

using device::Brain;
using device::Rows;
using device::Sink;
using device::SinkOf;

struct ScanSizes {
  int batch, length, heads, groups, width, states;
  int chunks, group;         // chunks of a sequence; heads that share B and C
  int passes, group_states;  // `states` are those of one of so many passes; all states, which lie side by side
};
/// With chunks of so many tokens.
ScanSizes sizes_of(const ScanInputs& in, int chunk);

/// What the steps of a scan are made of.
struct ScanSteps {
  Rows<float> dt, log_decay, lag;
  const float *A_log = nullptr, *D = nullptr;
};
/// T: as what inputs, answers and their gradients are stored.
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

/// Gradients of a step of a token: of dt; lagged also of log_decay, and of lag at the token before it.
template <bool lagged>
constexpr int step_kinds = lagged ? 3 : 1;
inline int kinds_of(const ScanInputs& in) { return in.lag.defined() ? step_kinds<true> : step_kinds<false>; }

/// What blocks leave of gradients that they share with others.
struct ScanParts {
  float* shared;   // [B,T,groups,sharers,2N]: of dB and dC; null where they went straight to their places
  float* steps;    // [B,T,H,tiles,kinds]
  float* scalars;  // [H,2,several]: of dA_log and dD
  int sharers, tiles, several, kinds;
};
/// Adds the parts, in order, and hands out every gradient but that of x: those of B and C in the columns of a pass,
/// those of steps added to what earlier passes gave, that of D, which is no matter of states, by the first one.
void sum_parts(cudaStream_t stream, const ScanSizes& s, const ScanInputs& in, const ScanParts& parts, int pass,
               const ScanGrads& out);
/// The same rows from a column on, where there are any.
template <class T>
Rows<T> from_column(Rows<T> rows, int column) {
  if (rows.data != nullptr) rows.data += column;
  return rows;
}

/// Whether the scan goes by chunks, from its sizes alone.
bool goes_by_chunks(const ScanInputs& in);
/// Whether its inputs and answers may be bfloat16, where products are not exact.
bool stores_narrow(const ScanInputs& in);
/// Whether the whole sequence is one chunk, which then needs no walk, from its sizes alone; where it goes on from a
/// state or leaves one, it goes by its recurrence, token after token as pieces of it do.
bool is_one_chunk(const ScanInputs& in);
/// Numbers that its backward pass keeps.
std::int64_t alone_workspace(const ScanInputs& in);
void scan_alone(cudaStream_t stream, const ScanInputs& in, bool exact, const Tensor& y);
void scan_alone_backward(cudaStream_t stream, const ScanInputs& in, bool exact, const Tensor& dy, float* workspace,
                         const ScanGrads& out);
/// Numbers that the forward pass by chunks keeps, and the backward pass.
std::int64_t chunk_memory(const ScanInputs& in);
std::int64_t chunk_workspace(const ScanInputs& in);
/// `exact`: products as accurate as float32, otherwise of numbers rounded to tf32.
void scan_by_chunks(cudaStream_t stream, const ScanInputs& in, bool exact, float* memory, const Tensor& y,
                    const Tensor& state, bool resume);
void scan_by_chunks_backward(cudaStream_t stream, const ScanInputs& in, bool exact, const Tensor& dy, float* workspace,
                             const ScanGrads& out);

}  // namespace afterglow::scan
