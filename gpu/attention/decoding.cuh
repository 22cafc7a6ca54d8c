// Softmax attention of a few queries, as when a model answers token by token: keys and values are read as they lie,
// once a query, in float32. Operands for the tensor cores (operands.cuh) would be made of the whole cache every
// time.
#pragma once
#include "gpu/device/operands.cuh"

namespace afterglow::device {

/// How many are few, and how wide their heads may be.
constexpr int few_queries = 4, widest_few = 256;

/// Sizes and masks as in Pairs (pairs.cuh); y is written as rows of all heads, log_sum [B,heads,queries].
struct Decoding {
  tiles::Operand q, k, v;
  Rows<float> y;
  float* log_sum;
  int batch, queries, keys, heads, key_heads, offset;
  float scale;

  __host__ __device__ int places() const { return batch * heads * queries; }
};

/// Numbers that `partials` of decode takes.
std::size_t decoding_elements(const Decoding& in);
void decode(cudaStream_t stream, const Decoding& in, float* partials);

}  // namespace afterglow::device
