// The inverse of the triangular system of a chunk's errors in the delta rule.
#pragma once
#include "gpu/tile/scan_tiles.cuh"

namespace afterglow::scan {

/// One thread computes one column of (I + L)^-1 from lower[i][j], the numbers of L for j < i in shared memory.
template <class Lower, class T>
__device__ void put_inverse_column(const Lower& lower, int column, T* to) {
  float x[chunk];
#pragma unroll
  for (int i = 0; i < chunk; ++i) {
    float sums[4] = {};
#pragma unroll
    for (int j = 0; j < i; ++j) sums[j % 4] = fmaf(lower[i][j], x[j], sums[j % 4]);
    x[i] = (i == column ? 1.0f : 0.0f) - ((sums[0] + sums[1]) + (sums[2] + sums[3]));
    to[i * chunk + column] = static_cast<T>(x[i]);
  }
}

}  // namespace afterglow::scan
