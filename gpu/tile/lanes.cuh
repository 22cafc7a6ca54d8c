// Sums over groups of lanes of a warp, always in the same order.
#pragma once
#include "gpu/tile/device.cuh"

namespace afterglow::device {

/// The sum over `lanes` neighbouring lanes, a power of two, returned to each of them.
template <int lanes>
__device__ float sum_of_lanes(float value) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(full_warp, value, offset);
  return value;
}

/// The sum over the warp's lanes up to this one, which is `lane`, or, when `backward`, from this one on.
template <bool backward = false, class T, class Lane>
__device__ T sum_along_lanes(T value, Lane lane) {
#pragma unroll
  for (Lane offset = 1; offset < 32; offset *= 2) {
    const T other = backward ? __shfl_down_sync(full_warp, value, offset) : __shfl_up_sync(full_warp, value, offset);
    if (backward ? lane + offset < 32 : lane >= offset) value += other;
  }
  return value;
}

template <int lanes>
__device__ float max_of_lanes(float value) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) value = fmaxf(value, __shfl_xor_sync(full_warp, value, offset));
  return value;
}

/// Adds `count` numbers over the lanes that differ in the bits from `first_bit` down to `last_bit`. Lanes exchange
/// halves, so a lane ends with count / lanes of the sums, at least one, at the beginning of `v`; returns the index of
/// the first of them.
template <int first_bit, int last_bit, int count>
__device__ int share_sums(float (&v)[count]) {
  const int lane = int(threadIdx.x) % 32;
  int first = 0, left = count;
#pragma unroll
  for (int offset = first_bit; offset >= last_bit; offset /= 2) {
    if (left == 1) {
      v[0] += __shfl_xor_sync(full_warp, v[0], offset);
      continue;
    }
    left /= 2;
    const bool upper = (lane & offset) != 0;
#pragma unroll
    for (int i = 0; i < count / 2; ++i) {
      if (i >= left) break;
      const float low = v[i], high = v[i + left];
      v[i] = (upper ? high : low) + __shfl_xor_sync(full_warp, upper ? low : high, offset);
    }
    if (upper) first += left;
  }
  return first;
}

/// Calls body with the number of lanes that hold `width` numbers by fours, as a compile-time constant, and returns its
/// result; false when `width` is not 16, 32, 64 or 128.
template <class Body>
bool with_lanes_of_fours(unsigned width, const Body& body) {
  if (width != 16 && width != 32 && width != 64 && width != 128) return false;
  return with_capacity<4u, 8u, 16u, 32u>(width / 4, body);
}

}  // namespace afterglow::device
