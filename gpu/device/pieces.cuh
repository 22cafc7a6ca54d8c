// Several neighbouring numbers of a row at once: fewer and wider loads.
#pragma once
#include "gpu/device/device.cuh"

namespace afterglow::device {

__device__ inline unsigned brain_pair(float a, float b) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
  return reinterpret_cast<const unsigned&>(pair);
}
__device__ inline float2 floats_of(unsigned pair) {
  return __bfloat1622float2(reinterpret_cast<__nv_bfloat162&>(pair));
}

/// Neighbouring numbers of a row; four are read at once.
template <unsigned width>
struct Piece {
  float v[width];
  template <class T>
  __device__ static Piece of(const Rows<T>& rows, unsigned row, unsigned column, bool inside) {
    return of(rows.data + row * rows.stride + column, inside);
  }
  template <class T>
  __device__ static Piece of(const T* from, bool inside) {
    Piece piece = {};
    if constexpr (width == 4) {
      const float4 four = inside ? four_at(from) : float4{};
      piece.v[0] = four.x;
      piece.v[1] = four.y;
      piece.v[2] = four.z;
      piece.v[3] = four.w;
    } else {
#pragma unroll
      for (unsigned e = 0; e < width; ++e) piece.v[e] = inside ? static_cast<float>(from[e]) : 0.0f;
    }
    return piece;
  }
  template <class T>
  __device__ void store(T* to) const {
    if constexpr (width == 4 && std::is_same_v<T, Brain>) {
      *reinterpret_cast<uint2*>(to) = make_uint2(brain_pair(v[0], v[1]), brain_pair(v[2], v[3]));
    } else if constexpr (width == 4) {
      *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
    } else {
#pragma unroll
      for (unsigned e = 0; e < width; ++e) to[e] = static_cast<T>(v[e]);
    }
  }
  template <class T>
  __device__ void put(const SinkOf<T>& sink, unsigned row, unsigned column) const {
    T* to = &sink.rows.at(row, column);
    Piece sum = *this;
    if (sink.accumulate) {
      const Piece before = of(to, true);
#pragma unroll
      for (unsigned e = 0; e < width; ++e) sum.v[e] += before.v[e];
    }
    sum.store(to);
  }

 private:
  __device__ static float4 four_at(const float* from) { return *reinterpret_cast<const float4*>(from); }
  __device__ static float4 four_at(const Brain* from) {
    const uint2 four = *reinterpret_cast<const uint2*>(from);
    const float2 low = floats_of(four.x), high = floats_of(four.y);
    return make_float4(low.x, low.y, high.x, high.y);
  }
};

/// Whether rows, where there are any, can be read in fours.
template <class T>
bool in_fours(const Rows<T>& rows) {
  return rows.data == nullptr ||
         (reinterpret_cast<std::uintptr_t>(rows.data) % (4 * sizeof(T)) == 0 && rows.stride % 4 == 0);
}

}  // namespace afterglow::device
