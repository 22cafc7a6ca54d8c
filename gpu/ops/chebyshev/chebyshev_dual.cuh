// The workspace of Gated KalmaNet's backward kernels, and the interfaces of the tensor-core kernels.
#pragma once
#include "core/backend/backend.h"
#include "gpu/ops/chebyshev/chebyshev.cuh"
#include "gpu/runtime/hopper_kernels.h"
#include "gpu/runtime/launch.cuh"

namespace afterglow::device {

/// The workspace: z [B,T,H,D]; later_i = sum_{c>=i} w_c e^{2 (G_c - G_i)} over the rest of a token's chunk, and the
/// tokens' parts of the gates' gradients, [B,T,H]; and the gradients of the states after each chunk from later chunks
/// [B,H,N,D,D], that of H doubled (dH + dH^T).
struct Dual {
  float *z, *later, *key_share, *value_share, *dH, *dS;
};

/// T is the stored type of queries, keys and values.
template <class T>
struct SinksOf {
  SinkOf<T> q, k, v;
  Sink g, alpha;
};
using Sinks = SinksOf<float>;

/// Of one token: x . z, z . H x, p . dp, dp . (x - q).
struct TokenShares {
  float overlap, image, value, alpha;
};

/// w from x . z.
__device__ inline float weight_of(const ChebyshevShape& s, float fro, float overlap) {
  const bool through_lambda = s.lambda_grad && s.fixed_lambda <= 0.0f && fro > 0.0f;
  return through_lambda ? 2.0f * s.ridge * overlap / fro : 0.0f;
}
/// Writes what the other kernels need of a token; returns w.
__device__ inline float put_shares(const ChebyshevShape& s, const Dual& dual, const Sinks& out, std::size_t row,
                                   float fro, const TokenShares& shares) {
  const float w = weight_of(s, fro, shares.overlap);
  dual.key_share[row] = -shares.image - 0.5f * w * fro * fro;
  dual.value_share[row] = shares.value;
  if (out.alpha.wanted()) out.alpha.put(unsigned(row), shares.alpha);
  return w;
}

/// `later` from w, both [64] in shared memory. Includes barriers.
__device__ inline void sum_weights(const float* gate, const float* w, float* later) {
  __shared__ float factors[chunk_tokens];
  const int c = int(threadIdx.x);
  if (c < chunk_tokens) factors[c] = c + 1 < chunk_tokens ? expf(2.0f * (gate[c + 1] - gate[c])) : 0.0f;
  __syncthreads();
  recur_over_chunk<true>(factors, w, 0.0f, later);
  __syncthreads();
}
__device__ inline void put_weights(const ChebyshevShape& s, const ChunkPosition& at, const float* gate, const float* w,
                                   const Dual& dual) {
  __shared__ float later[chunk_tokens];
  sum_weights(gate, w, later);
  const int c = int(threadIdx.x);
  if (c < at.count) dual.later[s.row(at.pair, at.first + c)] = later[c];
}

// Kernels with bfloat16 operands, float32 sums and states stored as bfloat16, for heads of width 32, 64 and 128.
// `faded` holds 2 numbers a chunk. The kernels of chebyshev_forward.cuh and chebyshev_backward.cuh are compiled for
// products by warp groups (chebyshev_warpgroup.cu) and by single warps (chebyshev_warps.cu).
inline bool on_matrix_units(const ChebyshevShape& s, Precision precision) {
  return precision == Precision::bf16 && (s.width == 32 || s.width == 64 || s.width == 128);
}
/// Calls body with whether warp groups multiply, as a compile-time constant.
template <class Body>
void with_units(const ChebyshevShape& s, const Body& body) {
  if constexpr (hopper_chebyshev) {
    if (s.width >= 64 && has_warpgroups()) return body(std::true_type{});
  }
  body(std::false_type{});
}
/// Turns every chunk's addition into the sum of those before it, or of those after it with `backwards`, in place.
void sum_over_chunks(cudaStream_t stream, const ChebyshevShape& s, float* H, float* S, const float* faded,
                     bool backwards);
template <bool warpgroups, class T>
struct UnitPasses {
  cudaStream_t stream;
  const ChebyshevShape& s;
  const ChebyshevPointersOf<T>& io;

  /// Every chunk's addition to the states, stored in the arrays for the states before it.
  void add_chunks(float* faded) const;
  /// Norms, Chebyshev iteration and readout of every chunk.
  void solve_chunks(T* y) const;
  /// dq, dalpha, the parts of dk and dv that do not depend on later chunks, the tokens' parts of the gates' gradients
  /// without those, and the gradients of the state before every chunk. z and `later` are not written.
  void dual_chunks(const T* dy, const Dual& dual, const SinksOf<T>& out, float* faded) const;
  /// Adds the rest of dk and dv; dg.
  void add_later_chunks(const Dual& dual, const SinksOf<T>& out) const;
};

}  // namespace afterglow::device
