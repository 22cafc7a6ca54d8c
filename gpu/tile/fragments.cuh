// Tensor-core fragments of float32 operands in shared memory (m16n8k8 in tf32, m16n8k16 in bf16), ldmatrix loads, and
// asynchronous copies from global to shared memory.
#pragma once
#include <cstdint>

#include "gpu/tile/device.cuh"

namespace afterglow::device::tiles {

__device__ inline unsigned shared_address(const void* address) { return unsigned(__cvta_generic_to_shared(address)); }
/// Begins to copy 16 bytes, or writes zeros when not `valid`; then `from` is not read.
__device__ inline void copy_piece(void* to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(valid ? 16 : 0)
               : "memory");
}
__device__ inline void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending>
__device__ void wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/// Rounds to tf32: the tensor cores ignore the last 13 bits, so adding half of that range rounds in one instruction.
__device__ inline std::uint32_t tf32_of(float x) { return __float_as_uint(x) + 0x1000u; }

/// Numbers rounded to tf32. With `exact` also the remainder, so that three products are as accurate as float32.
template <bool exact, int count>
struct Fragment {
  std::uint32_t big[count], rest[count];
  __device__ void set(int i, float x) {
    big[i] = tf32_of(x);
    if (!exact) return;
    big[i] &= 0xffffe000u;
    rest[i] = __float_as_uint(x - __uint_as_float(big[i]));
  }
};

__device__ inline void mma_tf32(float (&sum)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// m16n8k16 of bfloat16 pairs: a lane holds rows g and g + 8 of columns 2t and 2t + 1, then of columns 2t + 8 and 2t +
/// 9. The addend is a separate operand, so that the compiler can use the zero register for a sum known to be zero.
__device__ inline void mma_bf16(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, "
      "%12, %13};"
      : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(sum[0]), "f"(sum[1]), "f"(sum[2]),
        "f"(sum[3]));
}

/// sum += a b. Products that add to the same number are spaced apart, because each waits for the one before.
template <bool exact, int rows, int columns>
__device__ void multiply_fragments(float (&sum)[rows][columns][4], const Fragment<exact, 4> (&a)[rows],
                                   const Fragment<exact, 2> (&b)[columns]) {
  const auto each = [&](const auto& step) {
    unrolled<columns, rows>([&](int j, int i) { step(sum[i][j], a[i], b[j]); });
  };
  if (exact) {
    each([](float(&to)[4], const auto& l, const auto& r) { mma_tf32(to, l.rest, r.big); });
    each([](float(&to)[4], const auto& l, const auto& r) { mma_tf32(to, l.big, r.rest); });
  }
  each([](float(&to)[4], const auto& l, const auto& r) { mma_tf32(to, l.big, r.big); });
}

/// Loads four 8 x 8 matrices of 16-bit numbers; lane l gives the address of row l % 8 of matrix l / 8.
__device__ inline void load_matrices(unsigned address, std::uint32_t (&value)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(value[0]), "=r"(value[1]), "=r"(value[2]), "=r"(value[3])
               : "r"(address)
               : "memory");
}
__device__ inline void load_transposed(unsigned address, std::uint32_t (&value)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(value[0]), "=r"(value[1]), "=r"(value[2]), "=r"(value[3])
               : "r"(address)
               : "memory");
}

/// Loads four 8 x 4 matrices of floats; lane l gives the address of row l % 8 of matrix l / 8 and receives element (l /
/// 4, l % 4) of each.
__device__ inline void load_four(const float* row, float (&value)[4]) {
  std::uint32_t bits[4];
  load_matrices(shared_address(row), bits);
  unrolled<4>([&](int i) { value[i] = __uint_as_float(bits[i]); });
}
/// Loads two 8 x 4 matrices of floats; lane l < 16 gives the address of row l % 8 of matrix l / 8.
__device__ inline void load_two(const float* row, float (&value)[2]) {
  std::uint32_t bits[2];
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(bits[0]), "=r"(bits[1])
               : "r"(shared_address(row))
               : "memory");
  value[0] = __uint_as_float(bits[0]);
  value[1] = __uint_as_float(bits[1]);
}

}  // namespace afterglow::device::tiles
