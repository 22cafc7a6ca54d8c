// The matrices and operands of scan_tiles.cuh for bfloat16: shared memory holds the numbers as stored, and products
// take sixteen at a time, in an order that both operands share (so `paired` makes no difference). An operand has one or
// two addresses a lane, which may stay in registers.
#pragma once
#include "gpu/tile/scan_tiles.cuh"

namespace afterglow::scan {

using device::Bf16;

template <int columns>
struct SharedMatrix<columns, Bf16> {
  static constexpr int pieces = columns / 8,
                       rows_of_banks = 8 / pieces;  // 16-byte vectors in a row; rows that use all banks once
  Bf16* data;

  /// XOR applied to the index of a row's vectors: any eight rows from a multiple of eight on use different banks.
  static __device__ int swizzle(int row) { return row / rows_of_banks % pieces; }
  __device__ Bf16& at(int row, int column) const {
    return data[row * columns + (column / 8 ^ swizzle(row)) * 8 + column % 8];
  }
  __device__ float2 two(int row, int column) const {
    return device::floats_of(reinterpret_cast<const unsigned&>(at(row, column)));
  }
};

template <int columns>
struct OwnRow<columns, Bf16> {
  const Bf16* row;
  int swizzle;
  __device__ OwnRow(const SharedMatrix<columns, Bf16>& m, int own)
      : row(m.data + own * columns + int(threadIdx.x) % 4 * 2), swizzle(m.swizzle(own)) {}
  __device__ float2 at(int n) const {
    return device::floats_of(*reinterpret_cast<const unsigned*>(row + (n ^ swizzle) * 8));
  }
};

template <int columns>
struct LeftRows<columns, Bf16> {
  using Numbers = std::uint32_t[4];
  static constexpr int eights = 2;
  unsigned row;
  int swizzle;
  __device__ LeftRows(const SharedMatrix<columns, Bf16>& m, int first) {
    const int lane = int(threadIdx.x) % 32, own = first + lane % 16;
    row = device::tiles::shared_address(m.data + own * columns);
    swizzle = m.swizzle(own) ^ lane / 16;
  }
  __device__ void load(int k, Numbers& value) const {
    device::tiles::load_matrices(row + unsigned(k ^ swizzle) * 16, value);
  }
};

template <int columns>
struct LeftColumns<columns, Bf16> {
  using Numbers = std::uint32_t[4];
  static constexpr int eights = 2;
  unsigned at;
  __device__ LeftColumns(const SharedMatrix<columns, Bf16>& m, int first) {
    const int lane = int(threadIdx.x) % 32;
    at = device::tiles::shared_address(&m.at(lane / 16 * 8 + lane % 8, first + lane / 8 % 2 * 8));
  }
  __device__ void load(int k, Numbers& value) const {
    device::tiles::load_transposed(at + unsigned(k) * 16 * columns, value);
  }
};

template <int columns, int tiles>
struct RightRows<columns, tiles, Bf16> {
  static_assert(tiles % 2 == 0);
  using Left = std::uint32_t[4];
  using Numbers = std::uint32_t[tiles][2];
  static constexpr int eights = 2;
  unsigned row;
  int swizzle;
  __device__ RightRows(const SharedMatrix<columns, Bf16>& m, int first) {
    const int lane = int(threadIdx.x) % 32, own = first + lane % 8 + lane / 16 * 8;
    row = device::tiles::shared_address(m.data + own * columns);
    swizzle = m.swizzle(own) ^ lane / 8 % 2;
  }
  __device__ void load(int k, Numbers& value) const {
#pragma unroll
    for (int n = 0; n < tiles; n += 2) {
      std::uint32_t four[4];
      device::tiles::load_matrices(row + unsigned(16 * n * columns + (k ^ swizzle) * 16), four);
      device::unrolled<4>([&](int i) { value[n + i / 2][i % 2] = four[i]; });
    }
  }
};

template <int columns, int tiles, bool paired>
struct RightColumns<columns, tiles, paired, Bf16> {
  using Left = std::uint32_t[4];
  using Numbers = std::uint32_t[tiles][2];
  static constexpr int eights = 2, together = tiles < 2 ? 1 : 2;
  unsigned at[tiles / together];
  __device__ RightColumns(const SharedMatrix<columns, Bf16>& m, int first) {
    const int lane = int(threadIdx.x) % 32;
#pragma unroll
    for (int n = 0; n < tiles; n += together)
      at[n / together] = device::tiles::shared_address(&m.at(lane % 16, first + 8 * n + lane / 16 % together * 8));
  }
  __device__ void load(int k, Numbers& value) const {
#pragma unroll
    for (int n = 0; n < tiles; n += together) {
      std::uint32_t four[4];
      device::tiles::load_transposed(at[n / together] + unsigned(k) * 16 * columns, four);
      device::unrolled<2 * together>([&](int i) { value[n + i / 2][i % 2] = four[i]; });
    }
  }
};

/// Four vectors of eight numbers, of which each of four lanes has two numbers, become one vector a lane.
__device__ inline uint4 gather_eight(std::uint32_t (&two)[4]) {
  const auto exchange = [&](int by, int first, int second, int third, int fourth) {
    const bool upper = (threadIdx.x & unsigned(by)) != 0;
    const auto swap = [&](std::uint32_t& low, std::uint32_t& high) {
      const std::uint32_t got = __shfl_xor_sync(device::full_warp, upper ? low : high, by);
      (upper ? low : high) = got;
    };
    swap(two[first], two[second]);
    swap(two[third], two[fourth]);
  };
  exchange(1, 0, 1, 2, 3);
  exchange(2, 0, 2, 1, 3);
  return make_uint4(two[0], two[1], two[2], two[3]);
}

/// Stores a lane's numbers of a row of 8 `tiles`: two(n) returns two of each eight, and the first `left` numbers count,
/// a multiple of eight. The whole warp calls.
template <int tiles, class Two>
__device__ void store_row(Bf16* row, int left, const Two& two) {
  const int pair = int(threadIdx.x) % 4;
  const auto bits = [&](int n) {
    const float2 both = two(n);
    return device::bf16_pair(both.x, both.y);
  };
  if constexpr (tiles % 4 == 0) {
#pragma unroll
    for (int n = 0; n < tiles; n += 4) {
      std::uint32_t four[4] = {bits(n), bits(n + 1), bits(n + 2), bits(n + 3)};
      const uint4 eight = gather_eight(four);
      if (8 * (n + pair) < left) __stwb(reinterpret_cast<uint4*>(row + 8 * (n + pair)), eight);  // as one vector
    }
  } else {
    device::unrolled<tiles>([&](int n) {
      if (8 * n < left) reinterpret_cast<std::uint32_t*>(row + 8 * n)[pair] = bits(n);
    });
  }
}

/// The same, assigned or added.
template <int tiles, class Two>
__device__ void put_row(Bf16* row, int left, bool accumulate, const Two& two) {
  const auto* const old = reinterpret_cast<const unsigned*>(row) + int(threadIdx.x) % 4;
  store_row<tiles>(row, left, [&](int n) {
    float2 both = two(n);
    if (accumulate && 8 * n < left) {
      const float2 before = device::floats_of(old[4 * n]);
      both = make_float2(before.x + both.x, before.y + both.y);
    }
    return both;
  });
}

}  // namespace afterglow::scan
