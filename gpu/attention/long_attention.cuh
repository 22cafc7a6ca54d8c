// Attention of long sequences by warp groups (attention_warpgroup.cu, attention_gradient_warpgroup.cu).
#pragma once
#include "gpu/attention/pairs.cuh"

namespace afterglow::device::tiles {

/// Columns of the operands that heads of `width` have there, and bytes of their rows.
inline int warpgroup_columns(int width) { return width <= 64 ? 64 : 128; }
inline int warpgroup_row_bytes(int width) {
  return warpgroup_columns(width) == 64 ? row_bytes<64, false> : row_bytes<128, false>;
}

/// Whether attention whose products need not be exact goes by warp groups; the same for its gradient. In shorter
/// sequences their blocks are too few and their tiles too empty.
inline bool goes_by_warpgroups(const Pairs& in, int width) {
  constexpr int least = 256, widest = 128;
  return width <= widest && in.queries >= least && in.keys >= least && in.scale > 0 && has_warpgroups();
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
