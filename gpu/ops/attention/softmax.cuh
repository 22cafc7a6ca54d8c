// Shared by the kernels of softmax attention: the mask, and writing the results.
#pragma once
#include "gpu/ops/attention/pairs.cuh"

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

}  // namespace afterglow::device::tiles
