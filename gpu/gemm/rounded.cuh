// Matrices rounded to 16 bits for large projections. In tf32 to halves: scaled by a power of two a half has the 11 bits
// of tf32, takes half of the memory, and the matrix units multiply halves twice as fast and in any layout. In bf16 to
// bfloat16, whose scale is one. A result whose width is no multiple of eight is rounded with zeros behind it, since the
// units' fast kernels read whole vectors.
#pragma once
#include "gpu/cuda_backend.h"
#include "gpu/gemm/product.cuh"

namespace afterglow::device {

/// What takes part in projections of one input. Matrices of a kind have one scale, so that they can lie side by side.
enum class Kind : unsigned { input, result, weight };
constexpr unsigned kinds = 3;

/// What rounded matrices are to be multiplied by, in device memory: powers of two. A number keeps its 11 bits down to
/// 2^-29 of the largest of its kind.
struct RoundedScales {
  float zero, one;
  float up[kinds], down[kinds];  ///< of a kind, before it is rounded and afterwards
  float product[kinds];          ///< of products of the other two kinds
  const float* factor(const Grad& to) const { return to.accumulate ? &one : &zero; }
  const float* of_products(Kind result) const { return &product[static_cast<unsigned>(result)]; }
};

/// A matrix to be rounded; counted in fours, as its rows are read. What lies beyond its own rows and columns becomes
/// zero.
struct Rounding {
  const float4* from = nullptr;
  uint2* to = nullptr;
  unsigned count = 0, across = 0, from_stride = 0, to_stride = 0;
  unsigned rows = 0, columns = 0;  ///< of numbers
  unsigned first_block = 0, blocks = 0;
  Kind kind = Kind::input;
};

struct Roundings {
  static constexpr unsigned most = 2 * max_products + 1;
  Rounding of[most];
  unsigned count = 0, blocks = 0;
  float* peaks = nullptr;  ///< one a block
  unsigned* ticket = nullptr;
  RoundedScales* scales = nullptr;      ///< they are left here
  const RoundedScales* kept = nullptr;  ///< of an input that was rounded before; null when it is among these

  /// The rows of `matrix` reach as far as those of `to`.
  void add(const Tensor& matrix, Kind kind, const Halves& to);
};

}  // namespace afterglow::device
