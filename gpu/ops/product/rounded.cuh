// Matrices rounded to 16 bits for large projections. In tf32 mode to halves: scaled by a power of two a half has the 11
// bits of tf32 and takes half of the memory, and the tensor cores multiply halves twice as fast in any layout. In bf16
// mode to bfloat16 with a scale of one. A matrix whose width is no multiple of eight is padded with zeros, since fast
// kernels read whole vectors.
#pragma once
#include "gpu/ops/product/product.cuh"
#include "gpu/runtime/kernel.cuh"
#include "gpu/tile/tiles.cuh"

namespace afterglow::device {

/// Role of a matrix in projections of one input. Matrices of a kind share one scale, so that they can be contiguous.
enum class Kind : unsigned { input, result, weight };
constexpr unsigned kinds = 3;

constexpr std::size_t bytes_of_scales = 256;

/// Factors of rounded matrices, powers of two in device memory. A number keeps its 11 bits down to 2^-23 of the largest
/// sampled number of its kind, of the weights of a step down to 2^-19.
struct RoundedScales {
  float zero, one;
  float down[kinds];     ///< of a kind, after rounding
  float product[kinds];  ///< of products of the other two kinds
  const float* factor(const Grad& to) const { return to.accumulate ? &one : &zero; }
  const float* of_products(Kind result) const { return &product[unsigned(result)]; }
};

/// Rounded copy of a kernel's result for projections (`KeptInput`): scales, then the rounded numbers.
struct RoundedResult {
  RoundedScales* scales = nullptr;
  const RoundedScales* weights = nullptr;  ///< of all weights of a step; null when each projection rounds its own
  bool is_bf16 = false;
  __device__ bool wanted() const { return scales != nullptr; }
  /// The factor for results up to `bound`; the thread with `notes` stores its inverse.
  __device__ float factor(float bound, bool notes) const {
    const tiles::Scale scale(bound);
    const float up = is_bf16 ? 1.0f : scale.up, down = is_bf16 ? 1.0f : scale.down;
    if (notes) note(down);
    return up;
  }
  __device__ void note(float down) const {
    scales->zero = 0;
    scales->one = 1;
    scales->down[unsigned(Kind::input)] = down;
    if (weights == nullptr) return;
    scales->product[unsigned(Kind::result)] = down * weights->down[unsigned(Kind::weight)];
  }
  /// `place`: index of the vector's first number in the matrix.
  template <unsigned width>
  __device__ void put(std::size_t place, const Piece<width>& piece, float factor) const {
    auto* to = reinterpret_cast<unsigned short*>(reinterpret_cast<std::byte*>(scales) + bytes_of_scales) + place;
    const auto pair = [&](float a, float b) {
      return is_bf16 ? bf16_pair(a, b) : tiles::halves_of(a * factor, b * factor);
    };
    if constexpr (width % 4 == 0) {
#pragma unroll
      for (unsigned e = 0; e < width; e += 4)
        reinterpret_cast<uint2*>(to)[e / 4] =
            make_uint2(pair(piece.v[e], piece.v[e + 1]), pair(piece.v[e + 2], piece.v[e + 3]));
    } else if constexpr (width == 2) {
      *reinterpret_cast<unsigned*>(to) = pair(piece.v[0], piece.v[1]);
    } else {
      *to = static_cast<unsigned short>(pair(piece.v[0], 0));
    }
  }
};

inline RoundedResult rounded_result(const CudaBackend& backend, const Tensor& memory) {
  return {memory.as<RoundedScales>(), backend.weights_of_step().rounded.as<RoundedScales>(),
          backend.precision() == Precision::bf16};
}

/// A matrix to be rounded, counted in float4. Its padding becomes zero.
struct Rounding {
  const float4* from = nullptr;
  uint2* to = nullptr;
  unsigned count = 0, from_stride = 0, to_stride = 0;
  Division across;
  unsigned rows = 0, columns = 0;  ///< in numbers
  unsigned first_block = 0, blocks = 0;
  Kind kind = Kind::input;
};

/// Overflow report of a rounding; zero between kernels.
struct RoundingBoard {
  unsigned ticket;
  unsigned too_large[kinds];  ///< bits of the largest number of each kind that did not fit its scale
};

struct Roundings {
  static constexpr unsigned max_matrices = 2 * max_products + 1;
  Rounding of[max_matrices];
  unsigned count = 0, blocks = 0;
  unsigned fours[kinds] = {};       ///< of each kind
  RoundingBoard* board = nullptr;   ///< in the stream's tickets
  RoundedScales* scales = nullptr;  ///< where the kernel writes the scales
  /// The scales of a kind that was rounded before; null when this call rounds it.
  const RoundedScales* before[kinds] = {};
  float room_above = 64;  ///< headroom above the largest sampled number

  /// The rows of `matrix` are readable as far as those of `to`.
  void add(const Tensor& matrix, Kind kind, const Halves& to);
};

}  // namespace afterglow::device
