// Attention of long sequences on warp groups (hopper/attention/).
#pragma once
#include <algorithm>

#include "gpu/ops/attention/pairs.cuh"
#include "gpu/runtime/hopper_kernels.h"

namespace afterglow::device::tiles {

/// Padded width of the operands for heads of `width`, and bytes of their rows.
inline int warpgroup_columns(int width) { return width <= 64 ? 64 : 128; }
inline int warpgroup_row_bytes(int width) {
  return warpgroup_columns(width) == 64 ? row_bytes<64, false> : row_bytes<128, false>;
}

/// Whether attention and its gradient use warp groups, whose products are not exact. Shorter sequences give too few
/// blocks and too empty tiles. With narrow_width heads computing the weights dominates, so warp groups pay only for
/// long sequences, or when the tiles would not fill the GPU.
inline bool uses_warpgroups(const Pairs& in, int width, Precision precision) {
  constexpr int min_length = 256, min_narrow_length = 1024, min_width = 33, narrow_width = 64, max_width = 128,
                few_tiles = 448;
  const int shorter = std::min(in.queries, in.keys);
  if (!hopper_attention || precision == Precision::fp32 || in.scale <= 0 || !has_warpgroups()) return false;
  if (width < min_width || width > max_width || shorter < min_length) return false;
  return width > narrow_width || shorter >= min_narrow_length ||
         in.batch * in.heads * int(blocks_for(in.queries, rows)) <= few_tiles;
}

/// Makes the operands, whose rows take warpgroup_row_bytes, and computes y. Requires uses_warpgroups.
template <class T>
void attend_on_warpgroups(cudaStream_t stream, const Pairs& in, const MakingsOf<T>& makings, const TargetOf<T>& to,
                          float* log_sum);
/// The same for the wanted gradients; heads are `width` wide.
template <class T>
void gradients_on_warpgroups(cudaStream_t stream, const Pairs& in, const MakingsOf<T>& makings, int width,
                             const GradientTargets<T>& to);

}  // namespace afterglow::device::tiles
