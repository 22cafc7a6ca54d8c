// Matrices split for large exact products: each number becomes a half and the half of its remainder, in 64 x 64 squares
// laid out for wgmma. Without this, every block would split again what it multiplies; projections and their gradients
// use each operand many times.
#pragma once
#include <cstddef>
#include <cstdint>

#include "gpu/ops/product/product.cuh"
#include "gpu/tile/device.cuh"

namespace afterglow::device {

constexpr unsigned square = 64;  ///< rows and columns of a square, which has one scale
constexpr unsigned plane_bytes = square * square * 2, square_bytes = 2 * plane_bytes;

inline std::int64_t squares_for(std::int64_t lines) { return (lines + square - 1) / square; }

/// Squares row by row; each is its halves and then its remainders, in rows of 128 bytes swizzled as in
/// `warpgroup::Panel`, and zero beyond the matrix. The numbers of a square are multiplied by its scale, a power of two.
/// A number keeps 22 bits down to 2^-18 of the largest of its square, and fewer below.
struct SplitMatrix {
  unsigned char* squares = nullptr;
  float* scales = nullptr;
  unsigned across = 0;  ///< squares from one row of squares to the next

  SplitMatrix from(std::int64_t down, std::int64_t right) const {
    const std::size_t first = std::size_t(down) * across + std::size_t(right);
    return {squares + first * square_bytes, scales + first, across};
  }
};

/// A matrix to be split; its rows are read by float4.
struct Splitting {
  const float4* from = nullptr;
  SplitMatrix to;
  unsigned rows = 0, columns = 0, stride = 0;  // stride: in float4
  unsigned first_block = 0, across = 0;        // blocks of one square
};

struct Splittings {
  static constexpr unsigned max_matrices = 2 * max_products + 1;
  Splitting of[max_matrices];
  unsigned count = 0, blocks = 0;

  void add(const Tensor& matrix, const SplitMatrix& to);
};

/// c = op(a) op(b) + beta c.
struct SplitProduct {
  SplitMatrix a, b;
  float* c = nullptr;  ///< with shared depths the part of each share, one behind the other
  unsigned rows = 0, columns = 0, stride = 0;
  bool accumulate = false;
  unsigned first_tile = 0, down = 0;  // tiles are numbered over all products; those of one column by column
};

/// The products of one launch; they have the same depth.
struct SplitProducts {
  SplitProduct of[max_products];
  unsigned count = 0, tiles = 0;
  unsigned depth = 0;   ///< in squares
  unsigned shares = 1;  ///< of the depth, each computed by its own block

  void add(const SplitMatrix& a, const SplitMatrix& b, std::int64_t rows, std::int64_t columns, float* c,
           std::int64_t stride, bool accumulate);
};

constexpr unsigned max_tile_squares = 3;  ///< across; two down

/// The squares of a tile along a row of `squares`: widths differ by at most one, the wider tiles come first.
struct TileSquares {
  unsigned first, count;
  __host__ __device__ TileSquares(unsigned squares, unsigned tile) {
    const unsigned tiles = count_for(squares), wider = squares % tiles;
    first = squares / tiles * tile + (tile < wider ? tile : wider);
    count = squares / tiles + (tile < wider ? 1 : 0);
  }
  __host__ __device__ static unsigned count_for(unsigned squares) {
    return (squares + max_tile_squares - 1) / max_tile_squares;
  }
};

/// a_deep: the rows of a run along the depth; otherwise a is transposed and its columns are the rows of the product.
/// The same for b with its columns; b is deep only if a is. Requires splits_operands() (hopper/product/).
void multiply_split(cudaStream_t stream, const SplitProducts& p, bool a_deep, bool b_deep);

}  // namespace afterglow::device
