// Warp-group products (wgmma) of compute capability 9.0: four warps multiply 64 rows by a matrix in shared memory,
// asynchronously. Warp w holds rows 16 w to 16 w + 15, in the accumulator layout of mma.m16n8k16. Only for files that
// are compiled for 90a (gpu/CMakeLists.txt); warp_products.cuh has those of bfloat16 for all GPUs.
#pragma once
#include <cuda_bf16.h>

#include <cstdint>

namespace afterglow::device::warpgroup {

constexpr bool is_warpgroup = true;
constexpr int threads = 128;

/// Descriptor of an operand in shared memory.
using Operand = std::uint64_t;

/// A matrix of `rows` rows in shared memory in blocks of 64 columns, 128 bytes a row. The 128-byte swizzle permutes a
/// row's 16-byte vectors, so that neither rows nor columns of vectors have bank conflicts.
template <int rows>
struct Panel {
  static constexpr int block_bytes = rows * 128;
  static constexpr int bytes(int columns) { return (columns + 63) / 64 * block_bytes; }

  unsigned char* memory;  ///< aligned to 1024 bytes

  /// Byte offset of a number; the 8 columns of one vector are contiguous.
  static __device__ unsigned place(unsigned row, unsigned column) {
    return column / 64 * block_bytes + row * 128 + ((column % 64 * 2) ^ (row % 8 * 16));
  }
  /// Operand whose inner dimension is columns 16 k to 16 k + 15; its rows are the columns of the product.
  __device__ Operand by_column(int k) const { return operand(k / 4 * block_bytes + k % 4 * 32); }
  /// Operand whose inner dimension is rows 16 k to 16 k + 15, from column 64 block on; `transposed` in multiply.
  __device__ Operand by_row(int k, int block = 0) const { return operand(block * block_bytes + k * 16 * 128); }

 private:
  /// 128-byte swizzle; 1024 bytes from 8 rows to the next 8, a block from 64 columns to the next 64.
  __device__ Operand operand(int offset) const {
    const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(memory)) + offset;
    const std::uint32_t low = address / 16 | block_bytes / 16 << 16, high = 1024 / 16 | 1u << 30;
    return static_cast<Operand>(high) << 32 | low;
  }
};

/// wgmma.fence: call before the first product after registers that take part in it were written.
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Commits the products issued so far as one group.
__device__ __forceinline__ void end_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Compiler fence: keeps reads of the accumulators behind the wait before it.
template <int N>
__device__ __forceinline__ void fence_accumulators(float (&sums)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n)
    asm volatile("" : "+f"(sums[n][0]), "+f"(sums[n][1]), "+f"(sums[n][2]), "+f"(sums[n][3])::"memory");
}
/// Waits until at most `pending` groups are in flight; then `sums` may be read.
template <int pending, int N>
__device__ __forceinline__ void wait_for_groups(float (&sums)[N][4]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
  fence_accumulators(sums);
}

/// Makes earlier writes to shared memory visible to products of the whole block; includes a barrier.
__device__ __forceinline__ void fence_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
}

/// Types of the operands, by their names in PTX.
struct Bf16Operands {
  static constexpr char name[] = "bf16";
};
struct HalfOperands {
  static constexpr char name[] = "f16";
};

// An asm statement names every register, and no template can write such a list: each width has its own statement.
/// sums [64,64] += left [64,16] right [16,64], or = when not `add`. Asynchronous: see wait_for_groups.
template <bool transposed, class Type = Bf16Operands>
__device__ __forceinline__ void multiply(float (&sums)[8][4], const std::uint32_t (&left)[4], Operand right, bool add) {
  asm volatile(
      "{.reg .pred add;\n"
      "setp.ne.b32 add, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.%39.%39 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31},"
      "{%32,%33,%34,%35}, %36, add, 1, 1, %38;}\n"
      : "+f"(sums[0][0]), "+f"(sums[0][1]), "+f"(sums[0][2]), "+f"(sums[0][3]), "+f"(sums[1][0]), "+f"(sums[1][1]),
        "+f"(sums[1][2]), "+f"(sums[1][3]), "+f"(sums[2][0]), "+f"(sums[2][1]), "+f"(sums[2][2]), "+f"(sums[2][3]),
        "+f"(sums[3][0]), "+f"(sums[3][1]), "+f"(sums[3][2]), "+f"(sums[3][3]), "+f"(sums[4][0]), "+f"(sums[4][1]),
        "+f"(sums[4][2]), "+f"(sums[4][3]), "+f"(sums[5][0]), "+f"(sums[5][1]), "+f"(sums[5][2]), "+f"(sums[5][3]),
        "+f"(sums[6][0]), "+f"(sums[6][1]), "+f"(sums[6][2]), "+f"(sums[6][3]), "+f"(sums[7][0]), "+f"(sums[7][1]),
        "+f"(sums[7][2]), "+f"(sums[7][3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(static_cast<int>(add)),
        "n"(transposed ? 1 : 0), "C"(Type::name));
}
/// multiply<right_transposed, HalfOperands> for 64 columns as a statement of its own: with the type as an operand ptxas
/// allocates the registers of the SKA core's token kernel differently.
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

/// multiply for 128 columns.
template <bool transposed, class Type = Bf16Operands>
__device__ __forceinline__ void multiply(float (&sums)[16][4], const std::uint32_t (&left)[4], Operand right,
                                         bool add) {
  asm volatile(
      "{.reg .pred add;\n"
      "setp.ne.b32 add, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.%71.%71 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
      "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63},"
      "{%64,%65,%66,%67}, %68, add, 1, 1, %70;}\n"
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
        "n"(transposed ? 1 : 0), "C"(Type::name));
}

/// sums [64,64] += left [64,16] right [16,64], both in shared memory, or = when not `add`. Asynchronous: see
/// wait_for_groups.
template <bool left_transposed, bool right_transposed, class Type>
__device__ __forceinline__ void multiply_shared(float (&sums)[8][4], Operand left, Operand right, bool add) {
  asm volatile(
      "{.reg .pred add;\n"
      "setp.ne.b32 add, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.%37.%37 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,"
      "%26,%27,%28,%29,%30,%31}, %32, %33, add, 1, 1, %35, %36;}\n"
      : "+f"(sums[0][0]), "+f"(sums[0][1]), "+f"(sums[0][2]), "+f"(sums[0][3]), "+f"(sums[1][0]), "+f"(sums[1][1]),
        "+f"(sums[1][2]), "+f"(sums[1][3]), "+f"(sums[2][0]), "+f"(sums[2][1]), "+f"(sums[2][2]), "+f"(sums[2][3]),
        "+f"(sums[3][0]), "+f"(sums[3][1]), "+f"(sums[3][2]), "+f"(sums[3][3]), "+f"(sums[4][0]), "+f"(sums[4][1]),
        "+f"(sums[4][2]), "+f"(sums[4][3]), "+f"(sums[5][0]), "+f"(sums[5][1]), "+f"(sums[5][2]), "+f"(sums[5][3]),
        "+f"(sums[6][0]), "+f"(sums[6][1]), "+f"(sums[6][2]), "+f"(sums[6][3]), "+f"(sums[7][0]), "+f"(sums[7][1]),
        "+f"(sums[7][2]), "+f"(sums[7][3])
      : "l"(left), "l"(right), "r"(static_cast<int>(add)), "n"(left_transposed ? 1 : 0), "n"(right_transposed ? 1 : 0),
        "C"(Type::name));
}
/// The same for 128 columns.
template <bool left_transposed, bool right_transposed, class Type>
__device__ __forceinline__ void multiply_shared(float (&sums)[16][4], Operand left, Operand right, bool add) {
  asm volatile(
      "{.reg .pred add;\n"
      "setp.ne.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.%69.%69 {"
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
      : "l"(left), "l"(right), "r"(static_cast<int>(add)), "n"(left_transposed ? 1 : 0), "n"(right_transposed ? 1 : 0),
        "C"(Type::name));
}
/// The same for 192 columns.
template <bool left_transposed, bool right_transposed, class Type>
__device__ __forceinline__ void multiply_shared(float (&sums)[24][4], Operand left, Operand right, bool add) {
  asm volatile(
      "{.reg .pred add;\n"
      "setp.ne.b32 add, %98, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n192k16.f32.%101.%101 {"
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
      : "l"(left), "l"(right), "r"(static_cast<int>(add)), "n"(left_transposed ? 1 : 0), "n"(right_transposed ? 1 : 0),
        "C"(Type::name));
}

}  // namespace afterglow::device::warpgroup
