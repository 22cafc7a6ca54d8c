// Exact products of float32 matrices in shared memory on tensor cores, for Gated KalmaNet's core: results of 64 tokens
// in the registers of a block of 256 threads. Operands are split into tf32 and remainder, and three tf32 products are
// added (scan_tiles.cuh).
// Of a result's 64 rows and 16 J columns a warp has 16 rows and every other 8 columns, so two neighbouring warps share
// each row. Warps w and w + 4, which share a tensor core, together have as much work under the diagonal as any other
// such pair.
// Rows of operands start 4 banks apart. Then rows are read by ldmatrix without conflicts, and columns too when a lane
// takes inner numbers 2 t and 2 t + 1 instead of t and t + 4.
#pragma once
#include "gpu/tile/lanes.cuh"
#include "gpu/tile/scan_tiles.cuh"

namespace afterglow::device {

constexpr int chunk_tokens = 64;

namespace operand {

// A lane's eight inner numbers of matrices with rows `stride` apart, in the interface of scan::multiply.

/// Left: 16 rows, summed along them. `paired`: a lane's numbers are neighbours.
template <bool paired>
struct RowOperand {
  using Numbers = float[4];
  static constexpr int eights = 1;
  const float* row;
  int stride;
  __device__ RowOperand(const float* matrix, int matrix_stride) : stride(matrix_stride) {
    const int lane = scan::hidden_thread() % 32;
    row = matrix + (paired ? lane / 4 * stride + lane % 4 * 2 : lane % 16 * stride + lane / 16 * 4);
  }
  __device__ void load(int k, float (&value)[4]) const {
    if constexpr (paired) {
      unrolled<2>([&](int r) {
        const float2 two = *reinterpret_cast<const float2*>(row + 8 * r * stride + 8 * k);
        value[r] = two.x;
        value[2 + r] = two.y;
      });
    } else {
      tiles::load_four(row + 8 * k, value);
    }
  }
};

/// Address of a lane's numbers, which are neighbours down the columns.
struct Columns {
  static constexpr int eights = 1;
  const float* column;
  int stride;
  __device__ Columns(const float* matrix, int matrix_stride) : stride(matrix_stride) {
    const int lane = scan::hidden_thread() % 32;
    column = matrix + lane % 4 * 2 * stride + lane / 4;
  }
};

/// Left: 16 columns, summed down them; a lane's numbers are neighbours.
struct LeftColumns : Columns {
  using Numbers = float[4];
  using Columns::Columns;
  __device__ void load(int k, float (&value)[4]) const {
    unrolled<4>([&](int i) { value[i] = column[(8 * k + i / 2) * stride + i % 2 * 8]; });
  }
};

/// Right: the first eight of each of `tiles` groups of 16 rows, summed along them.
template <int tiles>
struct RightRows {
  using Numbers = float[tiles][2];
  static constexpr int eights = 1;
  const float* row;
  int stride;
  __device__ RightRows(const float* matrix, int matrix_stride) : stride(matrix_stride) {
    const int lane = scan::hidden_thread() % 32, further = tiles > 1 ? lane / 16 * 16 : 0;
    row = matrix + (lane % 8 + further) * stride + lane / 8 % 2 * 4;
  }
  __device__ void load(int k, float (&value)[tiles][2]) const {
    if constexpr (tiles == 1) {
      device::tiles::load_two(row + 8 * k, value[0]);
    } else {
#pragma unroll
      for (int n = 0; n < tiles; n += 2) {
        float four[4];
        device::tiles::load_four(row + 16 * n * stride + 8 * k, four);
        unrolled<4>([&](int i) { value[n + i / 2][i % 2] = four[i]; });
      }
    }
  }
};

/// Right: the first eight of each of `tiles` groups of 16 columns, summed down them; a lane's numbers are neighbours.
template <int tiles>
struct RightColumns : Columns {
  using Numbers = float[tiles][2];
  using Columns::Columns;
  __device__ void load(int k, float (&value)[tiles][2]) const {
    unrolled<tiles, 2>([&](int n, int i) { value[n][i] = column[(8 * k + i) * stride + 16 * n]; });
  }
};

}  // namespace operand

/// This thread's part of a result of 64 rows and W = 16 J columns: two rows, and two neighbours of every 16 columns.
template <int J>
struct Tile {
  static constexpr int width = 16 * J;
  static constexpr int stride = width + 4;
  static constexpr int panel = chunk_tokens * stride;
  static constexpr int state = width * stride;
  static constexpr int rows = 2, columns = 2 * J;
  static constexpr int warp_rows = 16;

  float cell[rows][columns];

  static __device__ int half() { return int(threadIdx.x / 32 % 2); }
  static __device__ int first_row() {
    const int warp = int(threadIdx.x / 32);
    return (warp < 4 ? warp / 2 : (11 - warp) / 2) * warp_rows;
  }
  static __device__ int row(int i) { return first_row() + int(threadIdx.x % 32 / 4) + 8 * i; }
  static __device__ int column(int j) { return 8 * half() + int(threadIdx.x % 4) * 2 + 16 * (j / 2) + j % 2; }

  template <class Body>
  __device__ void each(const Body& body) {
    unrolled<rows, columns>([&](int i, int j) { body(cell[i][j], row(i), column(j)); });
  }
  __device__ void clear() {
    each([](float& c, int, int) { c = 0.0f; });
  }
  /// Calls take(row, sum) with the sum of body(cell, row, column) over a warp's half of the columns, in one thread for
  /// each row and half. Whole warps call.
  template <class Body, class Take>
  __device__ void sum_rows(const Body& body, const Take& take) {
    unrolled<rows>([&](int i) {
      float sum = 0;
      unrolled<columns>([&](int j) { sum += body(cell[i][j], row(i), column(j)); });
      sum = sum_of_lanes<4>(sum);
      if (threadIdx.x % 4 == 0) take(row(i), sum);
    });
  }
  __device__ void store(float* memory, int memory_stride) {
    unrolled<rows>([&](int i) {
#pragma unroll
      for (int j = 0; j < columns; j += 2)
        *reinterpret_cast<float2*>(memory + row(i) * memory_stride + column(j)) = {cell[i][j], cell[i][j + 1]};
    });
  }
  __device__ void load(const float* memory, int memory_stride) {
    unrolled<rows>([&](int i) {
#pragma unroll
      for (int j = 0; j < columns; j += 2) {
        const float2 two = *reinterpret_cast<const float2*>(memory + row(i) * memory_stride + column(j));
        cell[i][j] = two.x;
        cell[i][j + 1] = two.y;
      }
    });
  }

  /// += op(A) op(B) over `depth` (a multiple of 16) inner numbers, the same for a warp. A is [64,depth], or
  /// [depth,A_stride - 4] when transposed; rows of the result beyond A are left unchanged. B is [depth,W], or [W,depth]
  /// when transposed. Strides are multiples of 4.
  template <bool transpose_A, bool transpose_B>
  __device__ void add_product(const float* A, int A_stride, const float* B, int B_stride, int depth) {
    static_assert(!(transpose_A && transpose_B), "columns give neighbours, rows of the right operand do not");
    if (transpose_A && first_row() >= A_stride - 4) return;
    A += first_row() * (transpose_A ? 1 : A_stride);
    B += 8 * half() * (transpose_B ? B_stride : 1);
    using Left = std::conditional_t<transpose_A, operand::LeftColumns, operand::RowOperand<!transpose_B>>;
    using Right = std::conditional_t<transpose_B, operand::RightRows<J>, operand::RightColumns<J>>;
    add_tiles<J>(Left(A, A_stride), Right(B, B_stride), depth);
  }
  /// += A B^T up to the diagonal; entries above it are undefined. A [64,depth], B [W,depth].
  __device__ void add_to_diagonal(const float* A, int A_stride, const float* B, int B_stride, int depth) {
    const operand::RowOperand<false> left(A + first_row() * A_stride, A_stride);
    B += 8 * half() * B_stride;
    if (first_row() < width / 2) {
      add_tiles<J / 2>(left, operand::RightRows<J / 2>(B, B_stride), depth);
    } else {
      add_tiles<J>(left, operand::RightRows<J>(B, B_stride), depth);
    }
  }

 private:
  /// += over the first tiles of 8 columns, in sums of at most 64 products.
  template <int tiles, class Left, class Right>
  __device__ void add_tiles(const Left& left, const Right& right, int depth) {
#pragma unroll 1
    for (int begin = 0; begin < depth / 8; begin += 8) {
      const auto product = scan::multiply<true, tiles>(begin, min(begin + 8, depth / 8), left, right);
      unrolled<tiles, 4>([&](int n, int i) { cell[i / 2][2 * n + i % 2] += product.of(n, i); });
    }
  }
};

using Scores = Tile<4>;

using TokenNumbers = float[Scores::rows];

/// A number for each token, in two parts from a row's two warps.
struct TokenParts {
  float part[2][chunk_tokens];
  __device__ float& own(int c) { return part[Scores::half()][c]; }
  __device__ float of(int c) const { return part[0][c] + part[1][c]; }
};

}  // namespace afterglow::device
