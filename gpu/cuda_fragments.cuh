// Fragments of the tensor cores of any number, for products whose operands cuda_tiles.cuh does not shape.
#pragma once
#include "gpu/cuda_tiles.cuh"

namespace afterglow::device::tiles {

/// sum += a b; products that add to one number are kept apart, because each waits for the one before.
template <bool exact, int rows, int columns>
__device__ void multiply_fragments(float (&sum)[rows][columns][4], const Fragment<exact, 4> (&a)[rows],
                                   const Fragment<exact, 2> (&b)[columns]) {
  const auto each = [&](const auto& step) {
#pragma unroll
    for (int j = 0; j < columns; ++j)
#pragma unroll
      for (int i = 0; i < rows; ++i) step(sum[i][j], a[i], b[j]);
  };
  if (exact) {
    each([](float(&to)[4], const auto& l, const auto& r) { multiply_units(to, l.rest, r.big); });
    each([](float(&to)[4], const auto& l, const auto& r) { multiply_units(to, l.big, r.rest); });
  }
  each([](float(&to)[4], const auto& l, const auto& r) { multiply_units(to, l.big, r.big); });
}

/// Two 8 x 4 matrices of floats; lane l < 16 names row l % 8 of matrix l / 8.
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
