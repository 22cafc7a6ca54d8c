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
#define AFTERGLOW_SUMS_4(n) "+f"(s[n][0]), "+f"(s[n][1]), "+f"(s[n][2]), "+f"(s[n][3])
#define AFTERGLOW_SUMS_16(n) \
  AFTERGLOW_SUMS_4(n), AFTERGLOW_SUMS_4(n + 1), AFTERGLOW_SUMS_4(n + 2), AFTERGLOW_SUMS_4(n + 3)
#define AFTERGLOW_SUMS_32 AFTERGLOW_SUMS_16(0), AFTERGLOW_SUMS_16(4)
#define AFTERGLOW_SUMS_64 AFTERGLOW_SUMS_32, AFTERGLOW_SUMS_16(8), AFTERGLOW_SUMS_16(12)
#define AFTERGLOW_SUMS_96 AFTERGLOW_SUMS_64, AFTERGLOW_SUMS_16(16), AFTERGLOW_SUMS_16(20)
// A product of `columns` columns with `count` sums: where its operands are in the list, and their types.
#define AFTERGLOW_PRODUCT(columns, count, left, right, add, transposed, type)                            \
  "{.reg .pred add;\n"                                                                                   \
  "setp.ne.b32 add, " add                                                                                \
  ", 0;\n"                                                                                               \
  "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type " {" AFTERGLOW_REGISTERS_##count \
      "}, " left ", " right ", add, 1, 1, " transposed ";}\n"

#define AFTERGLOW_HELD_LEFT \
  "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(int(add)), "n"(transposed ? 1 : 0)
#define AFTERGLOW_BOTH_SHARED \
  "l"(left), "l"(right), "r"(int(add)), "n"(left_transposed ? 1 : 0), "n"(right_transposed ? 1 : 0), "C"(Type::name)

/// s [64,columns] += left [64,16] right [16,columns], or = when not `add`, for 64 or 128 columns. Asynchronous: see
/// wait_for_groups.
template <bool transposed, class Type = Bf16Operands, int count>
__device__ __forceinline__ void multiply(float (&s)[count][4], const std::uint32_t (&left)[4], Operand right,
                                         bool add) {
  if constexpr (count == 8) {
    asm volatile(AFTERGLOW_PRODUCT(64, 32, "{%32,%33,%34,%35}", "%36", "%37", "%38", "%39")
                 : AFTERGLOW_SUMS_32
                 : AFTERGLOW_HELD_LEFT, "C"(Type::name));
  } else {
    static_assert(count == 16);
    asm volatile(AFTERGLOW_PRODUCT(128, 64, "{%64,%65,%66,%67}", "%68", "%69", "%70", "%71")
                 : AFTERGLOW_SUMS_64
                 : AFTERGLOW_HELD_LEFT, "C"(Type::name));
  }
}
/// multiply<transposed, HalfOperands> for 64 columns as a statement of its own: with the type as an operand ptxas
/// allocates the registers of the SKA core's token kernel differently.
template <bool transposed>
__device__ __forceinline__ void multiply_halves(float (&s)[8][4], const std::uint32_t (&left)[4], Operand right,
                                                bool add) {
  asm volatile(AFTERGLOW_PRODUCT(64, 32, "{%32,%33,%34,%35}", "%36", "%37", "%38", "f16")
               : AFTERGLOW_SUMS_32
               : AFTERGLOW_HELD_LEFT);
}

/// The same with both operands in shared memory, for 64, 128 or 192 columns.
template <bool left_transposed, bool right_transposed, class Type, int count>
__device__ __forceinline__ void multiply_shared(float (&s)[count][4], Operand left, Operand right, bool add) {
  if constexpr (count == 8) {
    asm volatile(AFTERGLOW_PRODUCT(64, 32, "%32", "%33", "%34", "%35, %36", "%37")
                 : AFTERGLOW_SUMS_32
                 : AFTERGLOW_BOTH_SHARED);
  } else if constexpr (count == 16) {
    asm volatile(AFTERGLOW_PRODUCT(128, 64, "%64", "%65", "%66", "%67, %68", "%69")
                 : AFTERGLOW_SUMS_64
                 : AFTERGLOW_BOTH_SHARED);
  } else {
    static_assert(count == 24);
    asm volatile(AFTERGLOW_PRODUCT(192, 96, "%96", "%97", "%98", "%99, %100", "%101")
                 : AFTERGLOW_SUMS_96
                 : AFTERGLOW_BOTH_SHARED);
  }
}

}  // namespace afterglow::device::warpgroup
