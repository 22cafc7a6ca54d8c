// What the backward kernels of Gated KalmaNet's core pass to one another, and the doors to the kernels on matrix units.
#pragma once
#include "core/backend/backend.h"
#include "gpu/cuda_chebyshev.cuh"

namespace afterglow::device {

/// The workspace: z [B,T,H,D]; later_i = sum_{c>=i} w_c e^{2 (G_c - G_i)} over the rest of a token's chunk and the
/// tokens' shares of the gates [B,T,H]; and what the chunks behind ask of the states after each chunk [B,H,N,D,D], that
/// of H doubled (dH + dH^T).
struct Dual {
  float *z, *later, *key_share, *value_share, *dH, *dS;
};

struct Sinks {
  Sink q, k, v, g, alpha;
};

/// Of one token: x . z, z . H x, p . dp, dp . (x - q).
struct TokenShares {
  float overlap, image, value, alpha;
};

/// Writes what the other kernels need of a token; answers w.
__device__ inline float put_shares(const ChebyshevShape& s, const Dual& dual, const Sinks& out, std::size_t row,
                                   float fro, const TokenShares& shares) {
  const bool through_lambda = s.lambda_grad && s.fixed_lambda <= 0.0f && fro > 0.0f;
  const float w = through_lambda ? 2.0f * s.ridge * shares.overlap / fro : 0.0f;
  dual.key_share[row] = -shares.image - 0.5f * w * fro * fro;
  dual.value_share[row] = shares.value;
  if (out.alpha.wanted()) out.alpha.put(static_cast<unsigned>(row), shares.alpha);
  return w;
}

/// `later` from w [64] in shared memory, which is used up; barriers inside.
__device__ inline void put_weights(const ChebyshevShape& s, const ChunkPlace& at, const float* gate, float* w,
                                   const Dual& dual) {
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int c = chunk_tokens - 2; c >= 0; --c) w[c] += expf(2.0f * (gate[c + 1] - gate[c])) * w[c + 1];
  }
  __syncthreads();
  const int c = static_cast<int>(threadIdx.x);
  if (c < at.count) dual.later[s.row(at.pair, at.first + c)] = w[c];
}

// The same on matrix units, with bfloat16 operands, float32 sums and states kept as bfloat16, for heads of width 32, 64
// and 128. `faded` holds 2 numbers a chunk.
inline bool on_matrix_units(const ChebyshevShape& s, Precision precision) {
  return precision == Precision::bf16 && (s.width == 32 || s.width == 64 || s.width == 128);
}
/// The states before every chunk.
void states_on_matrix_units(cudaStream_t stream, const ChebyshevShape& s, const ChebyshevPointers& io, float* faded);
/// Norms, Chebyshev iteration and readout of every chunk.
void solve_on_matrix_units(cudaStream_t stream, const ChebyshevShape& s, const ChebyshevPointers& io, float* y);
/// z, dq, dalpha and the tokens' shares.
void dual_on_matrix_units(cudaStream_t stream, const ChebyshevShape& s, const ChebyshevPointers& io, const float* dy,
                          const Dual& dual, const Sinks& out);
/// What the later chunks ask of the states after every chunk.
void asked_on_matrix_units(cudaStream_t stream, const ChebyshevShape& s, const ChebyshevPointers& io, const float* dy,
                           const Dual& dual, float* faded);
/// dk, dv, dg.
void finish_on_matrix_units(cudaStream_t stream, const ChebyshevShape& s, const ChebyshevPointers& io, const float* dy,
                            const Dual& dual, const Sinks& out);

}  // namespace afterglow::device
