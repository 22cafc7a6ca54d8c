// Float32 matrices in shared memory with bank-conflict-free access to rows, columns and pairs of rows, and products of
// 16 rows a warp on tensor cores (fragments.cuh). Exact products keep the products with remainders in separate sums:
// tensor cores truncate, so the fewer numbers they add to a large sum the better.
#pragma once
#include <cuda_pipeline.h>

#include "gpu/tile/fragments.cuh"
#include "gpu/tile/pieces.cuh"

namespace afterglow::scan {

using device::tiles::commit;
using device::tiles::Fragment;
using device::tiles::wait;

constexpr int block_threads = 128;  // four warps
constexpr int chunk = 64;           // tokens; a warp has 16 of them as rows

/// A thread's position in an accumulator fragment: rows row and row + 8, columns 8 n + column and the next.
struct ThreadPosition {
  int warp, lane, quad, pair;
  __device__ explicit ThreadPosition(int thread = int(threadIdx.x))
      : warp(thread / 32), lane(thread % 32), quad(lane / 4), pair(lane % 4) {}
  __device__ int row() const { return 16 * warp + quad; }
  __device__ int column() const { return 2 * pair; }
};

/// A matrix with rows of 16, 32 or 64 numbers, whose 16-byte vectors are swizzled by row. For bfloat16 see
/// bf16_tiles.cuh.
template <int columns, class T = float>
struct SharedMatrix {
  float* data;

  /// XOR applied to the index of a row's vectors: eight neighbouring rows, rows 0 to 3, 4 to 7, the even and the odd
  /// rows each use different banks (as far as possible with 16 columns).
  static __device__ int swizzle(int row) {
    if (columns == 16) return 2 * (row / 2 % 2) + row / 4 % 2;
    const int high = row / 4 % 2;
    return 2 * (row % 4 ^ high) + high;
  }
  static __device__ int place(int row, int column) {
    return row * columns + (column / 4 ^ swizzle(row)) * 4 + column % 4;
  }
  __device__ float& at(int row, int column) const { return data[place(row, column)]; }
  __device__ float2& two(int row, int column) const { return reinterpret_cast<float2&>(at(row, column)); }
};

/// This thread's accumulator positions in one row.
template <int columns, class T = float>
struct OwnRow {
  float* row;
  int swizzle;
  __device__ OwnRow(const SharedMatrix<columns>& m, int own) : row(m.data + own * columns) {
    const int lane = int(threadIdx.x) % 32;
    swizzle = m.swizzle(own) ^ lane % 4 / 2;
    row += lane % 2 * 2;
  }
  __device__ float2& at(int n) const { return *reinterpret_cast<float2*>(row + (2 * n ^ swizzle) * 4); }
};

/// The thread's index, opaque to the compiler, so that it recomputes operands' addresses for each product; kept, they
/// would fill the registers.
__device__ inline int hidden_thread() {
  int thread = int(threadIdx.x);
  asm volatile("" : "+r"(thread));
  return thread;
}

// An operand loads a lane's part of eight (or 8 `eights`) inner numbers.

/// Left operand: 16 rows from `first` on, summed along them.
template <int columns, class T = float>
struct LeftRows {
  using Numbers = float[4];
  static constexpr int eights = 1;
  const float* row;
  int swizzle;
  __device__ LeftRows(const SharedMatrix<columns>& m, int first) {
    const int lane = hidden_thread() % 32, own = first + lane % 16;
    row = m.data + own * columns;
    swizzle = m.swizzle(own) ^ lane / 16;
  }
  __device__ void load(int k, float (&value)[4]) const { device::tiles::load_four(row + (2 * k ^ swizzle) * 4, value); }
};

/// Left operand: 16 columns from `first` on, summed down them.
template <int columns, class T = float>
struct LeftColumns {
  using Numbers = float[4];
  static constexpr int eights = 1;
  const float* at[2][2];  // [k half][row half]
  __device__ LeftColumns(const SharedMatrix<columns>& m, int first) {
    const int lane = hidden_thread() % 32;
    device::unrolled<2, 2>([&](int k, int r) { at[k][r] = &m.at(lane % 4 + 4 * k, first + lane / 4 + 8 * r); });
  }
  __device__ void load(int k, float (&value)[4]) const {
    device::unrolled<4>([&](int i) { value[i] = at[i / 2][i % 2][8 * k * columns]; });
  }
};

/// Right operand: 8 `tiles` rows from `first` on are the columns of the product, summed along them.
template <int columns, int tiles, class T = float>
struct RightRows {
  static_assert(tiles % 2 == 0);
  using Left = float[4];
  using Numbers = float[tiles][2];
  static constexpr int eights = 1;
  const float* row;
  int swizzle;
  __device__ RightRows(const SharedMatrix<columns>& m, int first) {
    const int lane = hidden_thread() % 32, own = first + lane % 8 + lane / 16 * 8;
    row = m.data + own * columns;
    swizzle = m.swizzle(own) ^ lane / 8 % 2;
  }
  __device__ void load(int k, float (&value)[tiles][2]) const {
#pragma unroll
    for (int n = 0; n < tiles; n += 2) {
      float four[4];
      device::tiles::load_four(row + 8 * n * columns + (2 * k ^ swizzle) * 4, four);
      device::unrolled<4>([&](int i) { value[n + i / 2][i % 2] = four[i]; });
    }
  }
};

/// Right operand: 8 `tiles` columns from `first` on, summed down them. `paired`: a lane's two numbers are neighbours,
/// as in a left operand made from accumulators.
template <int columns, int tiles, bool paired, class T = float>
struct RightColumns {
  using Left = float[4];
  using Numbers = float[tiles][2];
  static constexpr int eights = 1;
  const float* at[2][tiles];
  __device__ RightColumns(const SharedMatrix<columns>& m, int first) {
    const int lane = hidden_thread() % 32;
    device::unrolled<2, tiles>([&](int k, int n) {
      at[k][n] = &m.at(paired ? 2 * (lane % 4) + k : lane % 4 + 4 * k, first + 8 * n + lane / 4);
    });
  }
  __device__ void load(int k, float (&value)[tiles][2]) const {
    device::unrolled<tiles, 2>([&](int n, int i) { value[n][i] = at[i][n][8 * k * columns]; });
  }
};

/// The running sums of a product. Products of bfloat16 operands are never exact.
template <bool exact, int tiles>
struct ProductTile {
  float sum[tiles][4] = {}, small[exact ? tiles : 1][4] = {};

  __device__ void add(const float (&left)[4], const float (&right)[tiles][2]) {
    Fragment<exact, 4> a;
    Fragment<exact, 2> b[tiles];
    device::unrolled<4>([&](int i) { a.set(i, left[i]); });
    device::unrolled<tiles, 2>([&](int n, int i) { b[n].set(i, right[n][i]); });
    if constexpr (exact) {
      device::unrolled<tiles>([&](int n) { device::tiles::mma_tf32(small[n], a.rest, b[n].big); });
    }
    device::unrolled<tiles>([&](int n) { device::tiles::mma_tf32(sum[n], a.big, b[n].big); });
    if constexpr (exact) {
      device::unrolled<tiles>([&](int n) { device::tiles::mma_tf32(small[n], a.big, b[n].rest); });
    }
  }
  /// Two steps of eight numbers in bfloat16.
  __device__ void add(const std::uint32_t (&left)[4], const std::uint32_t (&right)[tiles][2]) {
    device::unrolled<tiles>([&](int n) { device::tiles::mma_bf16(sum[n], left, right[n][0], right[n][1]); });
  }
  __device__ float of(int n, int i) const { return exact ? sum[n][i] + small[n][i] : sum[n][i]; }
};

/// Unrolled rounds of a bfloat16 product.
constexpr int rounds_ahead = 4;

/// left right over steps [begin, end) of eight inner numbers each, both even.
template <bool exact, int tiles, int together = 2, int ahead = rounds_ahead, class Left, class Right>
__device__ ProductTile<exact, tiles> multiply(int begin, int end, const Left& left, const Right& right) {
  ProductTile<exact, tiles> product;
  constexpr int unrolled = Left::eights > 1 ? ahead : 1;
#pragma unroll unrolled
  for (int first = begin; first < end; first += together) {
#pragma unroll
    for (int k = 0; k < together; k += Left::eights) {
      typename Left::Numbers a;
      typename Right::Numbers b;
      left.load(first + k, a);
      right.load(first + k, b);
      product.add(a, b);
    }
  }
  return product;
}

/// Eight columns of a result that becomes a left operand, as float or rounded: rows row and row + 8.
template <class T>
using Part = std::conditional_t<std::is_same_v<T, float>, float[4], std::uint32_t[2]>;

__device__ inline void put_two(float (&part)[4], int r, float a, float b) {
  part[2 * r] = a;
  part[2 * r + 1] = b;
}
__device__ inline void put_two(std::uint32_t (&part)[2], int r, float a, float b) { part[r] = device::bf16_pair(a, b); }

/// Makes an operand from `part` on. A lane's neighbours count as inner numbers t and t + 4.
__device__ inline void take(const float (*part)[4], float (&left)[4]) {
  left[0] = part[0][0];
  left[1] = part[0][2];
  left[2] = part[0][1];
  left[3] = part[0][3];
}
__device__ inline void take(const std::uint32_t (*part)[2], std::uint32_t (&left)[4]) {
  device::unrolled<4>([&](int i) { left[i] = part[i / 2][i % 2]; });
}

/// The same with a left operand made from accumulators, of which only steps [begin, end) count.
template <bool exact, int tiles, int steps, class Number, int each, class Right>
__device__ ProductTile<exact, tiles> multiply(int begin, int end, const Number (&left)[steps][each],
                                              const Right& right) {
  ProductTile<exact, tiles> product;
#pragma unroll
  for (int k = 0; k < steps; k += Right::eights) {
    if (k < begin || k >= end) continue;
    typename Right::Left a;
    typename Right::Numbers b;
    take(left + k, a);
    right.load(k, b);
    product.add(a, b);
  }
  return product;
}

/// Rows of numbers: address, stride, and how many rows and numbers of a row are valid.
template <class T>
struct StripOf {
  const T* data;
  std::size_t stride;
  int rows, width;
};

/// The block begins to copy `rows` rows; invalid numbers become zero. Rows of bfloat16 are whole 16-byte vectors.
template <int rows, int columns, class T>
__device__ void fetch(const SharedMatrix<columns, T>& to, const StripOf<T>& from) {
  constexpr int width = device::max_piece<T>, pieces = columns / width;
  const int thread = int(threadIdx.x);
  if (sizeof(T) == 2 ||
      (from.width % width == 0 && from.stride % width == 0 && reinterpret_cast<std::uintptr_t>(from.data) % 16 == 0)) {
    constexpr int step = block_threads / pieces;  // rows at a time, a multiple of eight
    const int row = thread / pieces, column = thread % pieces * width;
    if (step > rows && row >= rows) return;
    const int left = column < from.width ? from.rows - row : 0;
    const T* source = from.data + row * from.stride + column;
    T* place = &to.at(row, column);
#pragma unroll
    for (int i = 0; i < rows; i += step) {
      device::tiles::copy_piece(place + i * columns, source, i < left);
      source += step * from.stride;
    }
    return;
  }
  if constexpr (sizeof(T) == 4) {
#pragma unroll 1
    for (int i = thread; i < rows * columns; i += block_threads) {
      const int row = i / columns, column = i % columns;
      const bool valid = row < from.rows && column < from.width;
      __pipeline_memcpy_async(&to.at(row, column), valid ? from.data + row * from.stride + column : from.data, 4,
                              valid ? 0 : 4);
    }
  }
}

}  // namespace afterglow::scan
