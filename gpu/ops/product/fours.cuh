// Reads matrices by float4, for the kernels that round or split them for projections.
#pragma once
#include <cstdint>

#include "gpu/tile/pieces.cuh"

namespace afterglow::device {

/// Division of numbers below 2^30 by a divisor known on the host, in three instructions.
struct Division {
  unsigned divisor = 1, factor = 1, shift = 0;
  Division() = default;
  explicit Division(unsigned by) : divisor(by) {
    while ((std::uint64_t{1} << shift) < by) ++shift;
    shift += 30;
    factor = unsigned(((std::uint64_t{1} << shift) + by - 1) / by);
  }
  __device__ unsigned quotient(unsigned of) const { return unsigned(std::uint64_t{of} * factor >> shift); }
};

/// Four numbers of a row; `stride` and `four` count float4. Zeros beyond `rows` and `columns`.
__device__ inline float4 read_four(const float4* from, unsigned stride, unsigned rows, unsigned columns, unsigned row,
                                   unsigned four) {
  const unsigned column = 4 * four;
  if (row >= rows || column >= columns) return make_float4(0, 0, 0, 0);
  float4 v = from[std::size_t{row} * stride + four];
  if (column + 4 > columns) {
    if (column + 1 >= columns) v.y = 0;
    if (column + 2 >= columns) v.z = 0;
    v.w = 0;
  }
  return v;
}

}  // namespace afterglow::device
