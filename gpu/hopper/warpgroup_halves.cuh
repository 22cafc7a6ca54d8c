// Warp-group products of halves (f16); warpgroup.cuh multiplies bfloat16. Only for files that are compiled for 90a
// (gpu/CMakeLists.txt).
#pragma once
#include <utility>

#include "gpu/hopper/warpgroup.cuh"
#include "gpu/tile/pieces.cuh"
#include "gpu/tile/tiles.cuh"

namespace afterglow::device::warpgroup {

/// A 64 x 64 matrix in shared memory: a panel of halves and a panel of the halves of their remainders. The kernel that
/// fills it keeps the scale of its numbers.
struct HalfMatrix {
  using Block = Panel<64>;
  static constexpr int rest = Block::block_bytes, bytes = 2 * Block::block_bytes;
  unsigned char* memory;  ///< aligned to 1024 bytes

  /// Writes four neighbours of a row, times `up`; `column` is a multiple of four. Without `exact` no remainders.
  template <bool exact = true>
  __device__ void put(unsigned row, unsigned column, const float4& numbers, float up) const {
    std::uint32_t big[2], less[2];
    tiles::split(numbers.x * up, numbers.y * up, big[0], less[0]);
    tiles::split(numbers.z * up, numbers.w * up, big[1], less[1]);
    unsigned char* to = memory + Block::place(row, column);
    *reinterpret_cast<uint2*>(to) = make_uint2(big[0], big[1]);
    if constexpr (exact) *reinterpret_cast<uint2*>(to + rest) = make_uint2(less[0], less[1]);
  }
  /// Operand of 16 numbers of the inner dimension from 16 k on; it runs along rows, or down columns.
  template <bool by_columns>
  __device__ Operand big_part(int k) const {
    const Block block{memory};
    return by_columns ? block.by_row(k) : block.by_column(k);
  }
  template <bool by_columns>
  __device__ Operand rest_part(int k) const {
    const Block block{memory + rest};
    return by_columns ? block.by_row(k) : block.by_column(k);
  }
};

/// Begins sums = left right over an inner dimension of 64, or += with `add`. A left operand by columns is transposed,
/// and so is a right one by rows.
template <bool exact, bool left_by_columns, bool right_by_columns>
__device__ __forceinline__ void begin_multiply(float (&sums)[8][4], HalfMatrix left, HalfMatrix right,
                                               bool add = false) {
  // The asm makes the compiler recompute descriptors for each product; kept, they would fill the registers.
  asm volatile("" : "+l"(left.memory), "+l"(right.memory));
  unrolled<4>([&](int k) {
    const Operand a = left.big_part<left_by_columns>(k), b = right.big_part<right_by_columns>(k);
    if constexpr (exact) {
      multiply_shared<left_by_columns, right_by_columns, HalfOperands>(sums, left.rest_part<left_by_columns>(k), b,
                                                                       add || k > 0);
      multiply_shared<left_by_columns, right_by_columns, HalfOperands>(sums, a, right.rest_part<right_by_columns>(k),
                                                                       true);
    }
    multiply_shared<left_by_columns, right_by_columns, HalfOperands>(sums, a, b, exact || add || k > 0);
  });
  end_group();
}

/// The 64 rows of a left operand in float32; a thread holds rows `row` and `row` + 8.
struct RowNumbers {
  float2 numbers[2][8];

  /// Loads rows of an even number of `columns`; null gives zeros.
  template <class T>
  __device__ __forceinline__ void load(const T* above, const T* below, unsigned columns) {
    const T* const rows[2] = {above, below};
    unrolled<2, 8>([&](unsigned r, unsigned n) {
      const unsigned column = 8 * n + threadIdx.x % 4 * 2;
      numbers[r][n] = make_float2(0, 0);
      if (rows[r] != nullptr && column < columns) numbers[r][n] = two_of(rows[r] + column);
    });
  }
};
/// The same as halves, each row with its own scale.
struct HalfRows {
  std::uint32_t big[4][4], rest[4][4];
  float down[2];

  __device__ __forceinline__ void take(const RowNumbers& from) {
    unrolled<2>([&](unsigned r) {
      float peak = 0;
#pragma unroll
      for (const float2& two : from.numbers[r]) peak = fmaxf(peak, fmaxf(fabsf(two.x), fabsf(two.y)));
      const tiles::Scale scale(tiles::quad_max(peak));
      down[r] = scale.down;
      unrolled<8>([&](unsigned n) {
        tiles::split(from.numbers[r][n].x * scale.up, from.numbers[r][n].y * scale.up, big[n / 2][n % 2 * 2 + r],
                     rest[n / 2][n % 2 * 2 + r]);
      });
    });
  }
};

/// Begins sums = left right as above; the left operand must stay alive until the sums are read.
template <bool exact, bool right_by_columns>
__device__ __forceinline__ void begin_multiply(float (&sums)[8][4], const HalfRows& left, const HalfMatrix& right) {
  unrolled<4>([&](int k) {
    const Operand b = right.big_part<right_by_columns>(k);
    if constexpr (exact) {
      multiply<right_by_columns, HalfOperands>(sums, left.rest[k], b, k > 0);
      multiply<right_by_columns, HalfOperands>(sums, left.big[k], right.rest_part<right_by_columns>(k), true);
    }
    multiply<right_by_columns, HalfOperands>(sums, left.big[k], b, exact || k > 0);
  });
  end_group();
}

/// Calls body(0), body(1), .. with compile-time constants; a loop unrolled late would spill the sums.
template <int count, class Body>
__device__ __forceinline__ void each_constant(const Body& body) {
  [&]<int... i>(std::integer_sequence<int, i...>) { (body(std::integral_constant<int, i>{}), ...); }
  (std::make_integer_sequence<int, count>{});
}

/// Calls body(row, column, number at column, number at column + 1) for a thread's numbers; columns are even.
template <class Sums, class Body>
__device__ __forceinline__ void each_pair(Sums& sums, const Body& body) {
  int thread = int(threadIdx.x);
  asm volatile("" : "+r"(thread));
  const int row = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
  each_constant<16>([&](auto i) {
    constexpr int half = i() / 8, n = i() % 8;
    body(row + 8 * half, column + 8 * n, sums[n][2 * half], sums[n][2 * half + 1]);
  });
}

/// The maximum over the warp of numbers that are not negative.
__device__ inline float max_in_warp(float value) {
  return __uint_as_float(__reduce_max_sync(full_warp, __float_as_uint(value)));
}

}  // namespace afterglow::device::warpgroup
