// Interface of the chunked rules: the delta rule, and those with a decay for every channel of the keys, gated linear
// attention and, with beta, Kimi delta attention.
#pragma once
#include "core/backend/delta.h"

namespace afterglow::scan {

/// Whether the rule runs by chunks, from its sizes and this GPU's shared memory.
bool goes_by_chunks(const DeltaInputs& in);
/// Whether queries, keys and values may be bfloat16 when products are not exact, from shapes alone.
bool stores_narrow(const DeltaInputs& in);
/// The functions of a rule that runs by chunks.
struct ChunkedRule {
  /// Number of floats that the forward pass keeps, for the backward pass in `DeltaInputs::kept`; and that the backward
  /// pass needs in addition.
  std::int64_t (*memory)(const DeltaInputs& in);
  std::int64_t (*workspace)(const DeltaInputs& in);
  /// `exact`: products as accurate as float32, otherwise of numbers rounded to tf32.
  void (*run)(cudaStream_t stream, const DeltaInputs& in, bool exact, float* memory, const Tensor& y,
              const Tensor& state, bool resume);
  void (*differentiate)(cudaStream_t stream, const DeltaInputs& in, bool exact, const Tensor& dy, float* workspace,
                        const DeltaGrads& out);
};
/// The rule for these inputs: gated linear attention, Kimi delta attention or the delta rule.
const ChunkedRule& chunked_rule(const DeltaInputs& in);
/// Whether the rule has a decay for every channel and its sizes suit chunks, from shapes alone.
bool fits_gla(const DeltaInputs& in);
/// Whether this GPU has enough shared memory for the rule with beta; otherwise the recurrence runs.
bool fits_kda(const DeltaInputs& in);
extern const ChunkedRule gla_rule, kda_rule;

}  // namespace afterglow::scan
