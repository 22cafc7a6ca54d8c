// Descriptors of the products of product.cu; one launch computes several of them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "core/tensor/tensor.h"
#include "gpu/runtime/hopper_kernels.h"
#include "gpu/runtime/launch.cuh"
#include "gpu/runtime/properties.h"
#include "gpu/tile/device.cuh"

namespace afterglow::device {

constexpr unsigned max_products = 5;  // in one call
constexpr unsigned max_terms = 8;     // of a launch, which may combine the gradients of several calls

/// The number of blocks, up to `most`, that should share each of `tiles` tiles, so that a whole number of waves nearly
/// fills the GPU.
inline unsigned fullest_shares(std::int64_t tiles, std::int64_t max_shares) {
  const std::int64_t processors = multiprocessors();
  unsigned best = 1;
  double best_use = 0;
  for (unsigned shares = 1; shares <= max_shares; ++shares) {
    const std::int64_t blocks = tiles * shares, rounds = (blocks + processors - 1) / processors;
    const double use = double(blocks) / double(rounds * processors);
    if (use > best_use * 1.1) {
      best = shares;
      best_use = use;
    }
  }
  return best;
}

struct ProductOperand {
  float* data = nullptr;
  unsigned stride = 0;
  bool vector = false;  // readable by 16 bytes
};

inline bool is_narrow(const Tensor& matrix) { return matrix.dtype == DType::bf16; }
inline bool are_narrow(std::span<const Tensor> matrices) {
  return std::any_of(matrices.begin(), matrices.end(), is_narrow);
}

inline ProductOperand matrix_of(const Tensor& tensor) {
  if (is_narrow(tensor)) throw Error(ExitCode::failure, "tiles multiply no numbers of type bfloat16");
  const bool aligned = reinterpret_cast<std::uintptr_t>(tensor.data) % 16 == 0 && tensor.row_stride % 4 == 0;
  return {tensor.as<float>(), unsigned(tensor.row_stride), aligned};
}

/// Whether all gradients have different destinations; equal ones must be written one after the other.
inline bool are_apart(std::span<const Grad> gradients) {
  for (std::size_t i = 1; i < gradients.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (gradients[i].wanted() && gradients[i].tensor.data == gradients[k].tensor.data) return false;
    }
  }
  return true;
}

/// Whether large products in fp32 split their operands and multiply on warp groups (split.cu).
inline bool splits_operands() { return hopper_product && has_warpgroups(); }

inline std::int64_t rows_of_all(std::span<const Tensor> weights) {
  std::int64_t rows = 0;
  for (const Tensor& weight : weights) rows += weight.rows();
  return rows;
}

/// op(a) op(b) over `depth` terms.
struct Term {
  ProductOperand a, b;
  unsigned depth = 0;
};

/// Destination of a result: c = alpha sum + beta c.
struct Result {
  ProductOperand c;
  unsigned rows = 0, columns = 0;
  float beta = 0;
  unsigned first_tile = 0, across = 0;  // tiles are numbered over all results; those of one result row by row
};

enum class Finish {
  plain,            ///< each term has its own result, or all terms are added into the first
  gate_up,          ///< terms 0 and 1 give g and u (results 0 and 1) and h = silu(g) u (result 2)
  gate_up_backward  ///< the sum dh becomes dg = dh u silu'(g) and du = dh silu(g) (results 0 and 1); g and u are `kept`
};

struct Products {
  // The fields that every product reads come first, in few lines of constant memory.
  unsigned count = 0;  ///< terms
  bool summed = false;
  bool exact = true;             ///< as accurate as float32; otherwise operands are rounded to tf32
  bool biased = false;           ///< whether any result has a bias
  bool is_right_pinned = false;  ///< second operands may be read before the previous kernel has ended
  Finish finish = Finish::plain;
  float alpha = 1;
  unsigned tiles = 0;
  unsigned splits = 1;          ///< blocks that share the depth of a tile
  float* partials = nullptr;    ///< [splits, tiles, tile, tile] when splits > 1
  unsigned* tickets = nullptr;  ///< one a tile
  Term terms[max_terms];
  Result results[max_terms];
  ProductOperand kept[2];
  const float* biases[max_products] = {};  ///< added to plain results, a number a column, or null
};

// Matrices read by float4, by the kernels that round or split them for projections.
/// Division of numbers below 2^30 by a divisor known on the host, in three instructions.
struct Division {
  unsigned divisor = 1, factor = 1, shift = 0;
  Division() = default;
  explicit Division(unsigned by) : divisor(by) {
    while ((std::uint64_t{1} << shift) < by) ++shift;
    shift += 30;
    factor = unsigned(((std::uint64_t{1} << shift) + by - 1) / by);
  }
  __device__ unsigned quotient(unsigned of) const { return unsigned(std::uint64_t{of} * factor >> shift); }
};

/// Four numbers of a row; `stride` and `four` count float4. Zeros beyond `rows` and `columns`.
__device__ inline float4 read_four(const float4* from, unsigned stride, unsigned rows, unsigned columns, unsigned row,
                                   unsigned four) {
  const unsigned column = 4 * four;
  if (row >= rows || column >= columns) return make_float4(0, 0, 0, 0);
  float4 v = from[std::size_t{row} * stride + four];
  if (column + 4 > columns) {
    if (column + 1 >= columns) v.y = 0;
    if (column + 2 >= columns) v.z = 0;
    v.w = 0;
  }
  return v;
}

}  // namespace afterglow::device
