// Products of halves by the matrix units of compute capability 9.0, where warpgroup.cuh multiplies bfloat16. Only
// for files that are compiled for 90a (gpu/CMakeLists.txt).
#pragma once
#include <utility>

#include "gpu/device/pieces.cuh"
#include "gpu/device/tiles.cuh"
#include "gpu/device/warpgroup.cuh"

namespace afterglow::device::warpgroup {

/// sums [64,56] += left [64,16] right [16,56], both in shared memory, or = when not `add`. Ends later: await_groups.
template <bool left_transposed, bool right_transposed>
__device__ __forceinline__ void multiply_halves(float (&sums)[7][4], Operand left, Operand right, bool add) {
  asm volatile(
      "{.reg .pred add;\n"
      "setp.ne.b32 add, %30, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n56k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,"
      "%26,%27}, %28, %29, add, 1, 1, %31, %32;}\n"
      : "+f"(sums[0][0]), "+f"(sums[0][1]), "+f"(sums[0][2]), "+f"(sums[0][3]), "+f"(sums[1][0]), "+f"(sums[1][1]),
        "+f"(sums[1][2]), "+f"(sums[1][3]), "+f"(sums[2][0]), "+f"(sums[2][1]), "+f"(sums[2][2]), "+f"(sums[2][3]),
        "+f"(sums[3][0]), "+f"(sums[3][1]), "+f"(sums[3][2]), "+f"(sums[3][3]), "+f"(sums[4][0]), "+f"(sums[4][1]),
        "+f"(sums[4][2]), "+f"(sums[4][3]), "+f"(sums[5][0]), "+f"(sums[5][1]), "+f"(sums[5][2]), "+f"(sums[5][3]),
        "+f"(sums[6][0]), "+f"(sums[6][1]), "+f"(sums[6][2]), "+f"(sums[6][3])
      : "l"(left), "l"(right), "r"(static_cast<int>(add)), "n"(left_transposed ? 1 : 0), "n"(right_transposed ? 1 : 0));
}
/// The same for 64 columns.
template <bool left_transposed, bool right_transposed>
__device__ __forceinline__ void multiply_halves(float (&sums)[8][4], Operand left, Operand right, bool add) {
  asm volatile(
      "{.reg .pred add;\n"
      "setp.ne.b32 add, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,"
      "%26,%27,%28,%29,%30,%31}, %32, %33, add, 1, 1, %35, %36;}\n"
      : "+f"(sums[0][0]), "+f"(sums[0][1]), "+f"(sums[0][2]), "+f"(sums[0][3]), "+f"(sums[1][0]), "+f"(sums[1][1]),
        "+f"(sums[1][2]), "+f"(sums[1][3]), "+f"(sums[2][0]), "+f"(sums[2][1]), "+f"(sums[2][2]), "+f"(sums[2][3]),
        "+f"(sums[3][0]), "+f"(sums[3][1]), "+f"(sums[3][2]), "+f"(sums[3][3]), "+f"(sums[4][0]), "+f"(sums[4][1]),
        "+f"(sums[4][2]), "+f"(sums[4][3]), "+f"(sums[5][0]), "+f"(sums[5][1]), "+f"(sums[5][2]), "+f"(sums[5][3]),
        "+f"(sums[6][0]), "+f"(sums[6][1]), "+f"(sums[6][2]), "+f"(sums[6][3]), "+f"(sums[7][0]), "+f"(sums[7][1]),
        "+f"(sums[7][2]), "+f"(sums[7][3])
      : "l"(left), "l"(right), "r"(static_cast<int>(add)), "n"(left_transposed ? 1 : 0), "n"(right_transposed ? 1 : 0));
}
/// The same for 128 columns.
template <bool left_transposed, bool right_transposed>
__device__ __forceinline__ void multiply_halves(float (&sums)[16][4], Operand left, Operand right, bool add) {
  asm volatile(
      "{.reg .pred add;\n"
      "setp.ne.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,"
      "%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,"
      "%56,%57,%58,%59,%60,%61,%62,%63"
      "}, %64, %65, add, 1, 1, %67, %68;}\n"
      : "+f"(sums[0][0]), "+f"(sums[0][1]), "+f"(sums[0][2]), "+f"(sums[0][3]), "+f"(sums[1][0]), "+f"(sums[1][1]),
        "+f"(sums[1][2]), "+f"(sums[1][3]), "+f"(sums[2][0]), "+f"(sums[2][1]), "+f"(sums[2][2]), "+f"(sums[2][3]),
        "+f"(sums[3][0]), "+f"(sums[3][1]), "+f"(sums[3][2]), "+f"(sums[3][3]), "+f"(sums[4][0]), "+f"(sums[4][1]),
        "+f"(sums[4][2]), "+f"(sums[4][3]), "+f"(sums[5][0]), "+f"(sums[5][1]), "+f"(sums[5][2]), "+f"(sums[5][3]),
        "+f"(sums[6][0]), "+f"(sums[6][1]), "+f"(sums[6][2]), "+f"(sums[6][3]), "+f"(sums[7][0]), "+f"(sums[7][1]),
        "+f"(sums[7][2]), "+f"(sums[7][3]), "+f"(sums[8][0]), "+f"(sums[8][1]), "+f"(sums[8][2]), "+f"(sums[8][3]),
        "+f"(sums[9][0]), "+f"(sums[9][1]), "+f"(sums[9][2]), "+f"(sums[9][3]), "+f"(sums[10][0]), "+f"(sums[10][1]),
        "+f"(sums[10][2]), "+f"(sums[10][3]), "+f"(sums[11][0]), "+f"(sums[11][1]), "+f"(sums[11][2]),
        "+f"(sums[11][3]), "+f"(sums[12][0]), "+f"(sums[12][1]), "+f"(sums[12][2]), "+f"(sums[12][3]),
        "+f"(sums[13][0]), "+f"(sums[13][1]), "+f"(sums[13][2]), "+f"(sums[13][3]), "+f"(sums[14][0]),
        "+f"(sums[14][1]), "+f"(sums[14][2]), "+f"(sums[14][3]), "+f"(sums[15][0]), "+f"(sums[15][1]),
        "+f"(sums[15][2]), "+f"(sums[15][3])
      : "l"(left), "l"(right), "r"(static_cast<int>(add)), "n"(left_transposed ? 1 : 0), "n"(right_transposed ? 1 : 0));
}
/// The same for 192 columns.
template <bool left_transposed, bool right_transposed>
__device__ __forceinline__ void multiply_halves(float (&sums)[24][4], Operand left, Operand right, bool add) {
  asm volatile(
      "{.reg .pred add;\n"
      "setp.ne.b32 add, %98, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,"
      "%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,"
      "%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,"
      "%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
      "}, %96, %97, add, 1, 1, %99, %100;}\n"
      : "+f"(sums[0][0]), "+f"(sums[0][1]), "+f"(sums[0][2]), "+f"(sums[0][3]), "+f"(sums[1][0]), "+f"(sums[1][1]),
        "+f"(sums[1][2]), "+f"(sums[1][3]), "+f"(sums[2][0]), "+f"(sums[2][1]), "+f"(sums[2][2]), "+f"(sums[2][3]),
        "+f"(sums[3][0]), "+f"(sums[3][1]), "+f"(sums[3][2]), "+f"(sums[3][3]), "+f"(sums[4][0]), "+f"(sums[4][1]),
        "+f"(sums[4][2]), "+f"(sums[4][3]), "+f"(sums[5][0]), "+f"(sums[5][1]), "+f"(sums[5][2]), "+f"(sums[5][3]),
        "+f"(sums[6][0]), "+f"(sums[6][1]), "+f"(sums[6][2]), "+f"(sums[6][3]), "+f"(sums[7][0]), "+f"(sums[7][1]),
        "+f"(sums[7][2]), "+f"(sums[7][3]), "+f"(sums[8][0]), "+f"(sums[8][1]), "+f"(sums[8][2]), "+f"(sums[8][3]),
        "+f"(sums[9][0]), "+f"(sums[9][1]), "+f"(sums[9][2]), "+f"(sums[9][3]), "+f"(sums[10][0]), "+f"(sums[10][1]),
        "+f"(sums[10][2]), "+f"(sums[10][3]), "+f"(sums[11][0]), "+f"(sums[11][1]), "+f"(sums[11][2]),
        "+f"(sums[11][3]), "+f"(sums[12][0]), "+f"(sums[12][1]), "+f"(sums[12][2]), "+f"(sums[12][3]),
        "+f"(sums[13][0]), "+f"(sums[13][1]), "+f"(sums[13][2]), "+f"(sums[13][3]), "+f"(sums[14][0]),
        "+f"(sums[14][1]), "+f"(sums[14][2]), "+f"(sums[14][3]), "+f"(sums[15][0]), "+f"(sums[15][1]),
        "+f"(sums[15][2]), "+f"(sums[15][3]), "+f"(sums[16][0]), "+f"(sums[16][1]), "+f"(sums[16][2]),
        "+f"(sums[16][3]), "+f"(sums[17][0]), "+f"(sums[17][1]), "+f"(sums[17][2]), "+f"(sums[17][3]),
        "+f"(sums[18][0]), "+f"(sums[18][1]), "+f"(sums[18][2]), "+f"(sums[18][3]), "+f"(sums[19][0]),
        "+f"(sums[19][1]), "+f"(sums[19][2]), "+f"(sums[19][3]), "+f"(sums[20][0]), "+f"(sums[20][1]),
        "+f"(sums[20][2]), "+f"(sums[20][3]), "+f"(sums[21][0]), "+f"(sums[21][1]), "+f"(sums[21][2]),
        "+f"(sums[21][3]), "+f"(sums[22][0]), "+f"(sums[22][1]), "+f"(sums[22][2]), "+f"(sums[22][3]),
        "+f"(sums[23][0]), "+f"(sums[23][1]), "+f"(sums[23][2]), "+f"(sums[23][3])
      : "l"(left), "l"(right), "r"(static_cast<int>(add)), "n"(left_transposed ? 1 : 0), "n"(right_transposed ? 1 : 0));
}
/// The same with the left operand in registers.
template <bool right_transposed>
__device__ __forceinline__ void multiply_halves(float (&sums)[8][4], const std::uint32_t (&left)[4], Operand right,
                                                bool add) {
  asm volatile(
      "{.reg .pred add;\n"
      "setp.ne.b32 add, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,"
      "%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36, add, 1, 1, %38;}\n"
      : "+f"(sums[0][0]), "+f"(sums[0][1]), "+f"(sums[0][2]), "+f"(sums[0][3]), "+f"(sums[1][0]), "+f"(sums[1][1]),
        "+f"(sums[1][2]), "+f"(sums[1][3]), "+f"(sums[2][0]), "+f"(sums[2][1]), "+f"(sums[2][2]), "+f"(sums[2][3]),
        "+f"(sums[3][0]), "+f"(sums[3][1]), "+f"(sums[3][2]), "+f"(sums[3][3]), "+f"(sums[4][0]), "+f"(sums[4][1]),
        "+f"(sums[4][2]), "+f"(sums[4][3]), "+f"(sums[5][0]), "+f"(sums[5][1]), "+f"(sums[5][2]), "+f"(sums[5][3]),
        "+f"(sums[6][0]), "+f"(sums[6][1]), "+f"(sums[6][2]), "+f"(sums[6][3]), "+f"(sums[7][0]), "+f"(sums[7][1]),
        "+f"(sums[7][2]), "+f"(sums[7][3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(static_cast<int>(add)),
        "n"(right_transposed ? 1 : 0));
}

/// And the same for 128 columns.
template <bool right_transposed>
__device__ __forceinline__ void multiply_halves(float (&sums)[16][4], const std::uint32_t (&left)[4], Operand right,
                                                bool add) {
  asm volatile(
      "{.reg .pred add;\n"
      "setp.ne.b32 add, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,"
      "%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,"
      "%56,%57,%58,%59,%60,%61,%62,%63"
      "}, {%64,%65,%66,%67}, %68, add, 1, 1, %70;}\n"
      : "+f"(sums[0][0]), "+f"(sums[0][1]), "+f"(sums[0][2]), "+f"(sums[0][3]), "+f"(sums[1][0]), "+f"(sums[1][1]),
        "+f"(sums[1][2]), "+f"(sums[1][3]), "+f"(sums[2][0]), "+f"(sums[2][1]), "+f"(sums[2][2]), "+f"(sums[2][3]),
        "+f"(sums[3][0]), "+f"(sums[3][1]), "+f"(sums[3][2]), "+f"(sums[3][3]), "+f"(sums[4][0]), "+f"(sums[4][1]),
        "+f"(sums[4][2]), "+f"(sums[4][3]), "+f"(sums[5][0]), "+f"(sums[5][1]), "+f"(sums[5][2]), "+f"(sums[5][3]),
        "+f"(sums[6][0]), "+f"(sums[6][1]), "+f"(sums[6][2]), "+f"(sums[6][3]), "+f"(sums[7][0]), "+f"(sums[7][1]),
        "+f"(sums[7][2]), "+f"(sums[7][3]), "+f"(sums[8][0]), "+f"(sums[8][1]), "+f"(sums[8][2]), "+f"(sums[8][3]),
        "+f"(sums[9][0]), "+f"(sums[9][1]), "+f"(sums[9][2]), "+f"(sums[9][3]), "+f"(sums[10][0]), "+f"(sums[10][1]),
        "+f"(sums[10][2]), "+f"(sums[10][3]), "+f"(sums[11][0]), "+f"(sums[11][1]), "+f"(sums[11][2]),
        "+f"(sums[11][3]), "+f"(sums[12][0]), "+f"(sums[12][1]), "+f"(sums[12][2]), "+f"(sums[12][3]),
        "+f"(sums[13][0]), "+f"(sums[13][1]), "+f"(sums[13][2]), "+f"(sums[13][3]), "+f"(sums[14][0]),
        "+f"(sums[14][1]), "+f"(sums[14][2]), "+f"(sums[14][3]), "+f"(sums[15][0]), "+f"(sums[15][1]),
        "+f"(sums[15][2]), "+f"(sums[15][3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(static_cast<int>(add)),
        "n"(right_transposed ? 1 : 0));
}

/// 64 x 64 numbers in shared memory: a panel of halves, and one of the halves of what those left; numbers are to be
/// multiplied by a scale that the kernel which filled it knows.
struct HalfMatrix {
  using Block = Panel<64>;
  static constexpr int rest = Block::block_bytes, bytes = 2 * Block::block_bytes;
  unsigned char* memory;  ///< begins at a multiple of 1024 bytes

  /// Four neighbours of a row, from a multiple of four on; numbers times `up`. Not `exact`: without what is left.
  template <bool exact = true>
  __device__ void put(unsigned row, unsigned column, const float4& numbers, float up) const {
    std::uint32_t big[2], less[2];
    tiles::split(numbers.x * up, numbers.y * up, big[0], less[0]);
    tiles::split(numbers.z * up, numbers.w * up, big[1], less[1]);
    unsigned char* to = memory + Block::place(row, column);
    *reinterpret_cast<uint2*>(to) = make_uint2(big[0], big[1]);
    if constexpr (exact) *reinterpret_cast<uint2*>(to + rest) = make_uint2(less[0], less[1]);
  }
  /// Sixteen numbers of the summed axis from 16 k on; it runs along the rows, or down the columns.
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

/// Begins sums = left right, summed over 64, or += for `add`; a left operand by columns is transposed, and so is a
/// right one by rows.
template <bool exact, bool left_by_columns, bool right_by_columns>
__device__ __forceinline__ void begin_multiply(float (&sums)[8][4], HalfMatrix left, HalfMatrix right,
                                               bool add = false) {
  // Operands are found again each time: kept from product to product they would fill the registers.
  asm volatile("" : "+l"(left.memory), "+l"(right.memory));
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const Operand a = left.big_part<left_by_columns>(k), b = right.big_part<right_by_columns>(k);
    if constexpr (exact) {
      multiply_halves<left_by_columns, right_by_columns>(sums, left.rest_part<left_by_columns>(k), b, add || k > 0);
      multiply_halves<left_by_columns, right_by_columns>(sums, a, right.rest_part<right_by_columns>(k), true);
    }
    multiply_halves<left_by_columns, right_by_columns>(sums, a, b, exact || add || k > 0);
  }
  end_group();
}

/// The 64 rows of a left operand in float32, on their way to registers; of a thread rows `row` and `row` + 8.
struct RowNumbers {
  float2 numbers[2][8];

  /// Rows of `columns` numbers, an even number of them; null for zeros.
  template <class T>
  __device__ __forceinline__ void load(const T* above, const T* below, unsigned columns) {
    const T* const rows[2] = {above, below};
#pragma unroll
    for (unsigned r = 0; r < 2; ++r)
#pragma unroll
      for (unsigned n = 0; n < 8; ++n) {
        const unsigned column = 8 * n + threadIdx.x % 4 * 2;
        numbers[r][n] = make_float2(0, 0);
        if (rows[r] != nullptr && column < columns) numbers[r][n] = two_of(rows[r] + column);
      }
  }
};
/// The same as halves, each row with a scale of its own.
struct HalfRows {
  std::uint32_t big[4][4], rest[4][4];
  float down[2];

  __device__ __forceinline__ void take(const RowNumbers& from) {
#pragma unroll
    for (unsigned r = 0; r < 2; ++r) {
      float peak = 0;
#pragma unroll
      for (const float2& two : from.numbers[r]) peak = fmaxf(peak, fmaxf(fabsf(two.x), fabsf(two.y)));
      const tiles::Scale scale(tiles::quad_max(peak));
      down[r] = scale.down;
#pragma unroll
      for (unsigned n = 0; n < 8; ++n)
        tiles::split(from.numbers[r][n].x * scale.up, from.numbers[r][n].y * scale.up, big[n / 2][n % 2 * 2 + r],
                     rest[n / 2][n % 2 * 2 + r]);
    }
  }
};

/// Begins sums = left right as above; the left operand has to stay until the sums are there.
template <bool exact, bool right_by_columns>
__device__ __forceinline__ void begin_multiply(float (&sums)[8][4], const HalfRows& left, const HalfMatrix& right) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const Operand b = right.big_part<right_by_columns>(k);
    if constexpr (exact) {
      multiply_halves<right_by_columns>(sums, left.rest[k], b, k > 0);
      multiply_halves<right_by_columns>(sums, left.big[k], right.rest_part<right_by_columns>(k), true);
    }
    multiply_halves<right_by_columns>(sums, left.big[k], b, exact || k > 0);
  }
  end_group();
}

/// body(0), body(1), .. with constants: a loop that is unrolled late would keep sums in memory.
template <int count, class Body>
__device__ __forceinline__ void each_constant(const Body& body) {
  [&]<int... i>(std::integer_sequence<int, i...>) { (body(std::integral_constant<int, i>{}), ...); }
  (std::make_integer_sequence<int, count>{});
}

/// body(row, column, number at column, number at column + 1) for a thread's numbers; columns are even.
template <class Sums, class Body>
__device__ __forceinline__ void each_pair(Sums& sums, const Body& body) {
  int thread = static_cast<int>(threadIdx.x);
  asm volatile("" : "+r"(thread));
  const int row = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
  each_constant<16>([&](auto i) {
    constexpr int half = i() / 8, n = i() % 8;
    body(row + 8 * half, column + 8 * n, sums[n][2 * half], sums[n][2 * half + 1]);
  });
}

__device__ inline float max_of(const float4& v) {
  return fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
}

/// The largest of numbers that are not negative, in every lane of the warp.
__device__ inline float max_in_warp(float value) {
  return __uint_as_float(__reduce_max_sync(full_warp, __float_as_uint(value)));
}

}  // namespace afterglow::device::warpgroup
