// Attention of long sequences by warp groups (attention_warpgroup.cu, attention_gradient_warpgroup.cu).
#pragma once
#include <algorithm>

#include "gpu/attention/pairs.cuh"

namespace afterglow::device::tiles {

/// Columns of the operands that heads of `width` have there, and bytes of their rows.
inline int warpgroup_columns(int width) { return width <= 64 ? 64 : 128; }
inline int warpgroup_row_bytes(int width) {
  return warpgroup_columns(width) == 64 ? row_bytes<64, false> : row_bytes<128, false>;
}

/// Whether attention goes by warp groups, whose products are not exact; the same for its gradient. In shorter
/// sequences their blocks are too few and their tiles too empty; of narrow heads the weights cost more than the
/// products, which tells unless sequences are long or blocks of one tile would not fill the GPU.
inline bool goes_by_warpgroups(const Pairs& in, int width, Precision precision) {
  constexpr int least = 256, least_of_narrow = 1024, narrowest = 33, narrow = 64, widest = 128, few_tiles = 448;
  const int shorter = std::min(in.queries, in.keys);
  if (precision == Precision::fp32 || in.scale <= 0 || !has_warpgroups()) return false;
  if (width < narrowest || width > widest || shorter < least) return false;
  return width > narrow || shorter >= least_of_narrow ||
         in.batch * in.heads * static_cast<int>(blocks_for(in.queries, rows)) <= few_tiles;
}

/// Makes the operands, whose rows take warpgroup_row_bytes, and answers. Only where goes_by_warpgroups.
template <class T>
void attend_on_warpgroups(cudaStream_t stream, const Pairs& in, const MakingsOf<T>& makings, const TargetOf<T>& to,
                          float* log_sum);
/// The same of the gradients that are wanted; heads are `width` wide.
template <class T>
void gradients_on_warpgroups(cudaStream_t stream, const Pairs& in, const MakingsOf<T>& makings, int width,
                             const GradientTargets<T>& to);

}  // namespace afterglow::device::tiles
