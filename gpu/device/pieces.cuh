// Several neighbouring numbers of a row at once: fewer and wider loads.
#pragma once
#include "gpu/device/device.cuh"

namespace afterglow::device {

/// Neighbouring numbers of a row; four are read at once.
template <unsigned width>
struct Piece {
  float v[width];
  __device__ static Piece of(const Rows<float>& rows, unsigned row, unsigned column, bool inside) {
    return of(rows.data + row * rows.stride + column, inside);
  }
  __device__ static Piece of(const float* from, bool inside) {
    Piece piece = {};
    if constexpr (width == 4) {
      const float4 four = inside ? *reinterpret_cast<const float4*>(from) : float4{};
      piece.v[0] = four.x;
      piece.v[1] = four.y;
      piece.v[2] = four.z;
      piece.v[3] = four.w;
    } else {
#pragma unroll
      for (unsigned e = 0; e < width; ++e) piece.v[e] = inside ? from[e] : 0.0f;
    }
    return piece;
  }
  __device__ void store(float* to) const {
    if constexpr (width == 4) {
      *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
    } else {
#pragma unroll
      for (unsigned e = 0; e < width; ++e) to[e] = v[e];
    }
  }
  __device__ void put(const Sink& sink, unsigned row, unsigned column) const {
    float* to = &sink.rows.at(row, column);
    Piece sum = *this;
    if (sink.accumulate) {
      const Piece before = of(to, true);
#pragma unroll
      for (unsigned e = 0; e < width; ++e) sum.v[e] += before.v[e];
    }
    sum.store(to);
  }
};

/// Whether rows, where there are any, can be read in fours.
inline bool in_fours(const Rows<float>& rows) {
  return rows.data == nullptr || (reinterpret_cast<std::uintptr_t>(rows.data) % 16 == 0 && rows.stride % 4 == 0);
}

}  // namespace afterglow::device
