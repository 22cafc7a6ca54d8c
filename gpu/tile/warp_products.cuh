// The products of warpgroup.cuh with bfloat16 operands for GPUs without warp groups: the same names, arguments and
// layouts, but each warp multiplies its own 16 rows by mma.sync, and a product is finished when the call returns. A
// kernel that is written with these names runs on either.
#pragma once
#include "gpu/tile/fragments.cuh"
#include "gpu/tile/panel.cuh"

namespace afterglow::device::warp_products {

using warpgroup::Bf16Operands;
using warpgroup::Operand;
constexpr bool is_warpgroup = false;

__device__ __forceinline__ void begin_products() {}
__device__ __forceinline__ void end_group() {}
template <int pending, int N>
__device__ __forceinline__ void wait_for_groups(float (&)[N][4]) {}
__device__ __forceinline__ void fence_async_proxy() { __syncthreads(); }

/// Addresses of an operand's 16-byte vectors in shared memory, from its descriptor.
struct Vectors {
  unsigned first, block;
  __device__ explicit Vectors(Operand from)
      : first(unsigned(from) % (1 << 14) * 16), block(unsigned(from) >> 16 << 4) {}
  /// The vector of a row of 128 bytes. The swizzle permutes a row's vectors by bits 7 to 9 of the address.
  __device__ unsigned at(unsigned row, unsigned vector) const {
    const unsigned address = first + row * 128 + vector % 8 * 16;
    return (address ^ (address >> 3 & 0x70)) + vector / 8 * block;
  }
};

/// Loads the fragments of 16 columns of the product from 8 n on.
template <bool transposed>
__device__ __forceinline__ void load_right(const Vectors& right, unsigned n, std::uint32_t (&to)[4]) {
  const unsigned part = threadIdx.x % 32 / 8, line = threadIdx.x % 8;
  if constexpr (transposed) {
    tiles::load_transposed(right.at(part % 2 * 8 + line, n + part / 2), to);
  } else {
    tiles::load_matrices(right.at((n + part / 2) * 8 + line, part % 2), to);
  }
}
/// Loads the fragment of the warp's 16 rows.
template <bool transposed>
__device__ __forceinline__ void load_left(const Vectors& left, std::uint32_t (&to)[4]) {
  const unsigned part = threadIdx.x % 32 / 8, line = threadIdx.x % 8, warp = threadIdx.x / 32 % 4;
  if constexpr (transposed) {
    tiles::load_transposed(left.at(part / 2 * 8 + line, 2 * warp + part % 2), to);
  } else {
    tiles::load_matrices(left.at(16 * warp + part % 2 * 8 + line, part / 2), to);
  }
}

template <bool transposed, int count>
__device__ __forceinline__ void multiply(float (&sums)[count][4], const std::uint32_t (&left)[4], Operand right,
                                         bool add) {
  const Vectors vectors(right);
#pragma unroll
  for (int n = 0; n < count; n += 2) {
    std::uint32_t numbers[4];
    load_right<transposed>(vectors, unsigned(n), numbers);
    unrolled<2>([&](int i) {
      float(&sum)[4] = sums[n + i];
      if (!add) sum[0] = sum[1] = sum[2] = sum[3] = 0;
      tiles::mma_bf16(sum, left, numbers[2 * i], numbers[2 * i + 1]);
    });
  }
}
template <bool left_transposed, bool right_transposed, class Type, int count>
__device__ __forceinline__ void multiply_shared(float (&sums)[count][4], Operand left, Operand right, bool add) {
  static_assert(std::is_same_v<Type, Bf16Operands>);
  std::uint32_t rows[4];
  load_left<left_transposed>(Vectors(left), rows);
  multiply<right_transposed>(sums, rows, right, add);
}

}  // namespace afterglow::device::warp_products
