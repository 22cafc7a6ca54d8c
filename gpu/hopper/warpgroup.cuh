// Warp-group products (wgmma) of compute capability 9.0: four warps multiply 64 rows by a matrix in shared memory,
// asynchronously. Warp w holds rows 16 w to 16 w + 15, in the accumulator layout of mma.m16n8k16. Only for files that
// are compiled for 90a (gpu/CMakeLists.txt); warp_products.cuh has those of bfloat16 for all GPUs.
#pragma once
#include "gpu/tile/device.cuh"
#include "gpu/tile/panel.cuh"

namespace afterglow::device::warpgroup {

constexpr bool is_warpgroup = true;
/// wgmma.fence: call before the first product after registers that take part in it were written.
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Commits the products issued so far as one group.
__device__ __forceinline__ void end_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Compiler fence: keeps reads of the accumulators behind the wait before it.
template <int N>
__device__ __forceinline__ void fence_accumulators(float (&sums)[N][4]) {
  unrolled<N>([&](int n) {
    asm volatile("" : "+f"(sums[n][0]), "+f"(sums[n][1]), "+f"(sums[n][2]), "+f"(sums[n][3])::"memory");
  });
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

// An asm statement names every register, and no template can write such a list: the first 32, 64 and 96 sums `s`.
#define AFTERGLOW_REGISTERS_32                                                                             \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27," \
  "%28,%29,%30,%31"
#define AFTERGLOW_REGISTERS_64                                                                                \
  AFTERGLOW_REGISTERS_32                                                                                      \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57," \
  "%58,%59,%60,%61,%62,%63"
#define AFTERGLOW_REGISTERS_96                                                                                \
  AFTERGLOW_REGISTERS_64                                                                                      \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89," \
  "%90,%91,%92,%93,%94,%95"
#define AFTERGLOW_SUMS_32                                                                                      \
  "+f"(s[0][0]), "+f"(s[0][1]), "+f"(s[0][2]), "+f"(s[0][3]), "+f"(s[1][0]), "+f"(s[1][1]), "+f"(s[1][2]),     \
      "+f"(s[1][3]), "+f"(s[2][0]), "+f"(s[2][1]), "+f"(s[2][2]), "+f"(s[2][3]), "+f"(s[3][0]), "+f"(s[3][1]), \
      "+f"(s[3][2]), "+f"(s[3][3]), "+f"(s[4][0]), "+f"(s[4][1]), "+f"(s[4][2]), "+f"(s[4][3]), "+f"(s[5][0]), \
      "+f"(s[5][1]), "+f"(s[5][2]), "+f"(s[5][3]), "+f"(s[6][0]), "+f"(s[6][1]), "+f"(s[6][2]), "+f"(s[6][3]), \
      "+f"(s[7][0]), "+f"(s[7][1]), "+f"(s[7][2]), "+f"(s[7][3])
#define AFTERGLOW_SUMS_64                                                                                             \
  AFTERGLOW_SUMS_32, "+f"(s[8][0]), "+f"(s[8][1]), "+f"(s[8][2]), "+f"(s[8][3]), "+f"(s[9][0]), "+f"(s[9][1]),        \
      "+f"(s[9][2]), "+f"(s[9][3]), "+f"(s[10][0]), "+f"(s[10][1]), "+f"(s[10][2]), "+f"(s[10][3]), "+f"(s[11][0]),   \
      "+f"(s[11][1]), "+f"(s[11][2]), "+f"(s[11][3]), "+f"(s[12][0]), "+f"(s[12][1]), "+f"(s[12][2]), "+f"(s[12][3]), \
      "+f"(s[13][0]), "+f"(s[13][1]), "+f"(s[13][2]), "+f"(s[13][3]), "+f"(s[14][0]), "+f"(s[14][1]), "+f"(s[14][2]), \
      "+f"(s[14][3]), "+f"(s[15][0]), "+f"(s[15][1]), "+f"(s[15][2]), "+f"(s[15][3])
#define AFTERGLOW_SUMS_96                                                                                             \
  AFTERGLOW_SUMS_64, "+f"(s[16][0]), "+f"(s[16][1]), "+f"(s[16][2]), "+f"(s[16][3]), "+f"(s[17][0]), "+f"(s[17][1]),  \
      "+f"(s[17][2]), "+f"(s[17][3]), "+f"(s[18][0]), "+f"(s[18][1]), "+f"(s[18][2]), "+f"(s[18][3]), "+f"(s[19][0]), \
      "+f"(s[19][1]), "+f"(s[19][2]), "+f"(s[19][3]), "+f"(s[20][0]), "+f"(s[20][1]), "+f"(s[20][2]), "+f"(s[20][3]), \
      "+f"(s[21][0]), "+f"(s[21][1]), "+f"(s[21][2]), "+f"(s[21][3]), "+f"(s[22][0]), "+f"(s[22][1]), "+f"(s[22][2]), \
      "+f"(s[22][3]), "+f"(s[23][0]), "+f"(s[23][1]), "+f"(s[23][2]), "+f"(s[23][3])

#define AFTERGLOW_HELD_LEFT                                                                                   \
  "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(int(add)), "n"(transposed ? 1 : 0), \
      "C"(Type::name)
#define AFTERGLOW_BOTH_SHARED \
  "l"(left), "l"(right), "r"(int(add)), "n"(left_transposed ? 1 : 0), "n"(right_transposed ? 1 : 0), "C"(Type::name)

/// s [64,columns] += left [64,16] right [16,columns], or = when not `add`, for 64 or 128 columns. Asynchronous: see
/// wait_for_groups.
template <bool transposed, class Type = Bf16Operands, int count>
__device__ __forceinline__ void multiply(float (&s)[count][4], const std::uint32_t (&left)[4], Operand right,
                                         bool add) {
  if constexpr (count == 8) {
    asm volatile(
        "{.reg .pred add;\n"
        "setp.ne.b32 add, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.%39.%39 {" AFTERGLOW_REGISTERS_32
        "}, {%32,%33,%34,%35}, %36, add, 1, 1, %38;}\n"
        : AFTERGLOW_SUMS_32
        : AFTERGLOW_HELD_LEFT);
  } else {
    static_assert(count == 16);
    asm volatile(
        "{.reg .pred add;\n"
        "setp.ne.b32 add, %69, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.%71.%71 {" AFTERGLOW_REGISTERS_64
        "}, {%64,%65,%66,%67}, %68, add, 1, 1, %70;}\n"
        : AFTERGLOW_SUMS_64
        : AFTERGLOW_HELD_LEFT);
  }
}

/// The same with both operands in shared memory, for 64, 128 or 192 columns.
template <bool left_transposed, bool right_transposed, class Type, int count>
__device__ __forceinline__ void multiply_shared(float (&s)[count][4], Operand left, Operand right, bool add) {
  if constexpr (count == 8) {
    asm volatile(
        "{.reg .pred add;\n"
        "setp.ne.b32 add, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.%37.%37 {" AFTERGLOW_REGISTERS_32
        "}, %32, %33, add, 1, 1, %35, %36;}\n"
        : AFTERGLOW_SUMS_32
        : AFTERGLOW_BOTH_SHARED);
  } else if constexpr (count == 16) {
    asm volatile(
        "{.reg .pred add;\n"
        "setp.ne.b32 add, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.%69.%69 {" AFTERGLOW_REGISTERS_64
        "}, %64, %65, add, 1, 1, %67, %68;}\n"
        : AFTERGLOW_SUMS_64
        : AFTERGLOW_BOTH_SHARED);
  } else {
    static_assert(count == 24);
    asm volatile(
        "{.reg .pred add;\n"
        "setp.ne.b32 add, %98, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n192k16.f32.%101.%101 {" AFTERGLOW_REGISTERS_96
        "}, %96, %97, add, 1, 1, %99, %100;}\n"
        : AFTERGLOW_SUMS_96
        : AFTERGLOW_BOTH_SHARED);
  }
}

}  // namespace afterglow::device::warpgroup
