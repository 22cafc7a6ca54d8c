// Shared by the kernels over pieces of the sequence, with and without warp groups: the largest key, gradients between
// two launches, and the gradient through m.
#pragma once
#include "gpu/ops/ridge/ridge.cuh"
#include "gpu/runtime/hopper_kernels.h"

namespace afterglow::device {

/// The largest key norm of a piece and its position (-1: no key).
struct LargestKey {
  float norm = 0;
  int index = -1;
  __device__ void see(float other, int place) {
    if (other > norm || (other == norm && place >= 0 && index >= 0 && place < index)) {
      norm = other;
      index = place;
    }
  }
};

/// The largest of a warp's keys, returned to all lanes; of equal ones the first.
__device__ inline LargestKey largest_of_warp(const LargestKey& own) {
  const unsigned bits = __float_as_uint(own.norm), norm = __reduce_max_sync(full_warp, bits);
  const unsigned place = bits == norm ? unsigned(own.index) : ~0u;
  return {__uint_as_float(norm), int(__reduce_min_sync(full_warp, place))};
}

/// Largest keys of the pieces, between two launches.
struct PieceKeys {
  float* norms;
  int* indices;
};

/// Gradients of the raw statistics of every group, then of every piece; [B,H,g,..].
struct RidgeWorkspace {
  float *G, *M, *C, *m, *eta, *gamma_raw;
};

struct RidgeSinks {
  Sink z, q, v, eta, gamma_raw, length, left;
};

/// The gradient through m for the key of position t, if it attains m: sum of dm / m over the groups whose m it is, in
/// order. The whole warp calls, each lane with a position in [first, end).
__device__ inline float scale_gradient(const RidgeShape& s, const RidgePointers& in, const RidgeWorkspace& work,
                                       std::size_t base, int t, int first, int end) {
  float sum = 0;
#pragma unroll 4
  for (int begin = 0; begin < s.groups; begin += 32) {
    const int g = begin + ridge_lane();
    const int index = g < s.groups ? in.m_index[base + g] : -1;
    const bool near = index >= first && index < end;
    const float ratio = near ? work.m[base + g] / in.m[base + g] : 0.0f;
    for (unsigned hits = __ballot_sync(full_warp, near); hits != 0; hits &= hits - 1) {
      const int from = __ffs(int(hits)) - 1, place = __shfl_sync(full_warp, index, from);
      const float more = __shfl_sync(full_warp, ratio, from);
      if (place == t) sum += more;
    }
  }
  return sum;
}

/// Sums over sequences and groups in order; a warp takes one head.
__device__ inline void sum_heads(const RidgeShape& s, const RidgeWorkspace& work, const RidgeSinks& out) {
  const int lane = int(threadIdx.x) % 32;
  for (int head = ridge_warp(); head < s.heads; head += int(blockDim.x / 32)) {
    float eta = 0, gamma = 0;
    for (int i = lane; i < s.batch * s.groups; i += 32) {
      const std::size_t entry = (std::size_t(i / s.groups) * s.heads + head) * s.groups + i % s.groups;
      eta += work.eta[entry];
      gamma += work.gamma_raw[entry];
    }
    eta = warp_sum(eta);
    gamma = warp_sum(gamma);
    if (lane == 0 && out.eta.wanted()) out.eta.put(unsigned(head), eta);
    if (lane == 0 && out.gamma_raw.wanted()) out.gamma_raw.put(unsigned(head), gamma);
  }
}

/// Whether the warp-group kernels support this size: a piece is a tile, and rows are read by fours. For ranks or widths
/// above 32.
inline bool fits_warpgroups(const RidgeShape& s) {
  return hopper_ridge && s.plain && s.piece <= 64 && s.rank % 4 == 0 && s.width % 4 == 0 && has_warpgroups();
}
/// Whether a gradient can be stored by pairs of neighbours.
inline bool takes_pairs(const Grad& grad) {
  return !grad.wanted() || grad.tensor.dtype == DType::bf16 ||
         (grad.tensor.contiguous() && reinterpret_cast<std::uintptr_t>(grad.tensor.data) % 8 == 0);
}

/// One call of the core: its inputs, and what it keeps.
struct RidgeCall {
  cudaStream_t stream;
  RidgeShape s;
  const RidgeInputs& in;
  RidgePointers kept;
  bool exact;
  dim3 grid() const { return {unsigned(s.groups), unsigned(s.batch * s.heads)}; }
};

/// Raw sums of every piece and its largest key, the result of gather_kernel; always exact.
void gather_on_warpgroups(const RidgeCall& call, const PieceKeys& found);
/// The forward pass of every group, as group_kernel with statistics gathered before.
void groups_on_warpgroups(const RidgeCall& call, const Tensor& y);
/// The backward pass of every group, as group_backward_kernel.
void groups_backward_on_warpgroups(const RidgeCall& call, const Tensor& dy, const RidgeWorkspace& work,
                                   const RidgeGrads& out, unsigned* ticket);
/// Gradients of keys and values from those of the pieces' sums, as token_kernel; the two are different tensors.
void tokens_on_warpgroups(const RidgeCall& call, const RidgeWorkspace& work, const RidgeGrads& out);

}  // namespace afterglow::device
