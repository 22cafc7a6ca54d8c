// Softmax attention of a few queries, as in token-by-token decoding, in float32: each query reads keys and values once,
// without the tiles of operands.cuh, which would be made of the whole cache for every token.
#pragma once
#include "gpu/tile/operands.cuh"

namespace afterglow::device {

/// Maximum number of queries, and maximum width of their heads.
constexpr int few_queries = 4, max_few_width = 256;

/// Sizes and masks as in Pairs (pairs.cuh); y is written as rows of all heads, log_sum is [B,heads,queries].
struct Decoding {
  tiles::Operand q, k, v;
  Rows<float> y;
  float* log_sum;
  int batch, queries, keys, heads, key_heads, offset, since;
  float scale;

  __host__ __device__ int places() const { return batch * heads * queries; }
  __host__ __device__ int first_key() const { return since > 0 ? since : 0; }  ///< that any query sees
};

/// Number of floats that decode needs in `partials`.
std::size_t decoding_elements(const Decoding& in);
void decode(cudaStream_t stream, const Decoding& in, float* partials);

}  // namespace afterglow::device
