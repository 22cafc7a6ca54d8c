// Shared by the kernels of softmax attention: the mask, writing the results, and the interface to warp groups, which
// compute long sequences (hopper/attention/).
#pragma once
#include <algorithm>

#include "gpu/ops/attention/pairs.cuh"
#include "gpu/runtime/hopper_kernels.h"

namespace afterglow::device::tiles {

/// Maximum score (in base 2) and sum of weights of a thread's two rows.
struct Softmax {
  float largest[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
  /// The reference of weights; 0 when no key was seen yet.
  __device__ float base(int r) const { return largest[r] == -INFINITY ? 0.0f : largest[r]; }
};

/// Masks scores of keys from `key` on that queries from `first` on do not see.
template <int width>
__device__ void hide_unseen(const Pairs& in, const LanePosition& lane, int first, int key, Share<width>& score) {
  score.each([&](int n, int r, int e, float value) {
    return key + lane.column_of(n, e) < in.seen(first + lane.row_of(r)) ? value : -INFINITY;
  });
}

/// The same of keys before the queries' window.
template <int width>
__device__ void hide_early(const Pairs& in, const LanePosition& lane, int first, int key, Share<width>& score) {
  score.each([&](int n, int r, int e, float value) {
    return key + lane.column_of(n, e) >= first + lane.row_of(r) + in.since ? value : -INFINITY;
  });
}

/// Writes the results of `count` queries of one head from `first` on; softmax.total is that of the whole row.
template <int columns, class T>
__device__ void put_answers(const Pairs& in, const LanePosition& lane, int b, int h, int first, int count,
                            const Softmax& softmax, Share<columns>& sum, const TargetOf<T>& to, float* log_sum) {
  unrolled<2>([&](int r) {
    const int row = lane.row_of(r);
    if (row < count && lane.part == 0)
      log_sum[(std::size_t(b) * in.heads + h) * in.queries + first + row] =
          (softmax.largest[r] + log2f(softmax.total[r])) * 0.693147181f;
  });
  sum.each([&](int, int r, int, float value) { return softmax.total[r] > 0 ? value / softmax.total[r] : 0.0f; });
  to.put(lane, sum, std::size_t(b) * in.queries + first, h, count);
}

/// Padded width of the operands for heads of `width`, and bytes of their rows.
inline int warpgroup_columns(int width) { return width <= 64 ? 64 : 128; }
inline int warpgroup_row_bytes(int width) {
  return warpgroup_columns(width) == 64 ? row_bytes<64, false> : row_bytes<128, false>;
}

/// Whether attention and its gradient use warp groups, whose products are not exact and which know no windows. Shorter
/// sequences give too few blocks and too empty tiles. With narrow_width heads computing the weights dominates, so warp
/// groups pay only for long sequences, or when the tiles would not fill the GPU.
inline bool uses_warpgroups(const Pairs& in, int width, Precision precision) {
  constexpr int min_length = 256, min_narrow_length = 1024, min_width = 33, narrow_width = 64, max_width = 128,
                few_tiles = 448;
  const int shorter = std::min(in.queries, in.keys);
  if (!hopper_attention || precision == Precision::fp32 || in.scale <= 0 || !has_warpgroups()) return false;
  if (width < min_width || width > max_width || shorter < min_length || in.has_window()) return false;
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
