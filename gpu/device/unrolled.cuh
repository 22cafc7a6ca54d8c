// Nested loops over compile-time ranges, unrolled, as tiles in registers need them.
#pragma once

namespace afterglow::device {

/// Calls body(i) for every i below `count`; with more counts body(i, j, ..), the last index running fastest.
template <int count, int... others, class Body>
__device__ __forceinline__ void unrolled(const Body& body) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    if constexpr (sizeof...(others) == 0) {
      body(i);
    } else {
      unrolled<others...>([&](auto... rest) { body(i, rest...); });
    }
  }
}

}  // namespace afterglow::device
