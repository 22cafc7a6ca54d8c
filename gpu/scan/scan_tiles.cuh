// Matrices of float32 in shared memory whose rows, columns and pairs of rows the lanes of a warp read without meeting
// in a bank, and products of 16 rows a warp on the tensor cores (fragments.cuh). Exact products keep what the rounding
// of operands left in sums of their own: the units cut sums off, so the fewer they add to a large one the better.
#pragma once
#include <cuda_pipeline.h>

#include "gpu/device/fragments.cuh"
#include "gpu/device/pieces.cuh"

namespace afterglow::scan {

using device::tiles::Fragment;

constexpr int block_threads = 128;  // four warps
constexpr int chunk = 64;           // tokens; a warp has 16 of them as rows

/// Where a thread's numbers of a product lie: rows row and row + 8, columns 8 n + column and the next.
struct Place {
  int warp, lane, quad, pair;
  __device__ Place()
      : warp(static_cast<int>(threadIdx.x) / 32),
        lane(static_cast<int>(threadIdx.x) % 32),
        quad(lane / 4),
        pair(lane % 4) {}
  __device__ int row() const { return 16 * warp + quad; }
  __device__ int column() const { return 2 * pair; }
};

/// Rows of 16, 32 or 64 numbers; the pieces of four change places with the row.
template <int columns>
struct Matrix {
  float* data;

  /// What a row's pieces are exchanged by: eight rows, rows 0 to 3, 4 to 7, the even and the odd ones each use
  /// different banks (16 columns: as far as possible).
  static __device__ int turn(int row) {
    if (columns == 16) return 2 * (row / 2 % 2) + row / 4 % 2;
    const int high = row / 4 % 2;
    return 2 * (row % 4 ^ high) + high;
  }
  static __device__ int place(int row, int column) { return row * columns + (column / 4 ^ turn(row)) * 4 + column % 4; }
  __device__ float& at(int row, int column) const { return data[place(row, column)]; }
  __device__ float2& two(int row, int column) const { return reinterpret_cast<float2&>(at(row, column)); }
};

/// Where this thread's numbers of a product lie in one row.
template <int columns>
struct OwnRow {
  float* row;
  int turn;
  __device__ OwnRow(const Matrix<columns>& m, int own) : row(m.data + own * columns) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    turn = m.turn(own) ^ lane % 4 / 2;
    row += lane % 2 * 2;
  }
  /// Columns 8 n + column and the next.
  __device__ float2& at(int n) const { return *reinterpret_cast<float2*>(row + (2 * n ^ turn) * 4); }
};

/// This thread, in a way that the compiler does not see through: operands' addresses are found again for each product,
/// because kept from one to the next they would fill the registers.
__device__ inline int hidden_thread() {
  int thread = static_cast<int>(threadIdx.x);
  asm volatile("" : "+r"(thread));
  return thread;
}

/// Left operand: 16 rows from `first` on, summed along them.
template <int columns>
struct LeftRows {
  const float* row;
  int turn;
  __device__ LeftRows(const Matrix<columns>& m, int first) {
    const int lane = hidden_thread() % 32, own = first + lane % 16;
    row = m.data + own * columns;
    turn = m.turn(own) ^ lane / 16;
  }
  __device__ void load(int k, float (&value)[4]) const { device::tiles::load_four(row + (2 * k ^ turn) * 4, value); }
};

/// Left operand: 16 columns from `first` on, summed down them.
template <int columns>
struct LeftColumns {
  const float* at[2][2];  // [k half][row half]
  __device__ LeftColumns(const Matrix<columns>& m, int first) {
    const int lane = hidden_thread() % 32;
#pragma unroll
    for (int k = 0; k < 2; ++k)
#pragma unroll
      for (int r = 0; r < 2; ++r) at[k][r] = &m.at(lane % 4 + 4 * k, first + lane / 4 + 8 * r);
  }
  __device__ void load(int k, float (&value)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) value[i] = at[i / 2][i % 2][8 * k * columns];
  }
};

/// Right operand: 8 `tiles` rows from `first` on are the columns of the product, summed along them.
template <int columns, int tiles>
struct RightRows {
  static_assert(tiles % 2 == 0);
  const float* row;
  int turn;
  __device__ RightRows(const Matrix<columns>& m, int first) {
    const int lane = hidden_thread() % 32, own = first + lane % 8 + lane / 16 * 8;
    row = m.data + own * columns;
    turn = m.turn(own) ^ lane / 8 % 2;
  }
  __device__ void load(int k, float (&value)[tiles][2]) const {
#pragma unroll
    for (int n = 0; n < tiles; n += 2) {
      float four[4];
      device::tiles::load_four(row + 8 * n * columns + (2 * k ^ turn) * 4, four);
#pragma unroll
      for (int i = 0; i < 4; ++i) value[n + i / 2][i % 2] = four[i];
    }
  }
};

/// Right operand: 8 `tiles` columns from `first` on, summed down them. `paired`: a lane's two numbers are neighbours,
/// as in a left operand that is the result of a product.
template <int columns, int tiles, bool paired>
struct RightColumns {
  const float* at[2][tiles];
  __device__ RightColumns(const Matrix<columns>& m, int first) {
    const int lane = hidden_thread() % 32;
#pragma unroll
    for (int k = 0; k < 2; ++k)
#pragma unroll
      for (int n = 0; n < tiles; ++n)
        at[k][n] = &m.at(paired ? 2 * (lane % 4) + k : lane % 4 + 4 * k, first + 8 * n + lane / 4);
  }
  __device__ void load(int k, float (&value)[tiles][2]) const {
#pragma unroll
    for (int n = 0; n < tiles; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) value[n][i] = at[i][n][8 * k * columns];
  }
};

/// A product's sums while it goes on.
template <bool exact, int tiles>
struct Product {
  float sum[tiles][4] = {}, small[exact ? tiles : 1][4] = {};

  __device__ void add(const float (&left)[4], const float (&right)[tiles][2]) {
    Fragment<exact, 4> a;
    Fragment<exact, 2> b[tiles];
#pragma unroll
    for (int i = 0; i < 4; ++i) a.set(i, left[i]);
#pragma unroll
    for (int n = 0; n < tiles; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) b[n].set(i, right[n][i]);
    if constexpr (exact) {
#pragma unroll
      for (int n = 0; n < tiles; ++n) device::tiles::multiply_units(small[n], a.rest, b[n].big);
    }
#pragma unroll
    for (int n = 0; n < tiles; ++n) device::tiles::multiply_units(sum[n], a.big, b[n].big);
    if constexpr (exact) {
#pragma unroll
      for (int n = 0; n < tiles; ++n) device::tiles::multiply_units(small[n], a.big, b[n].rest);
    }
  }
  __device__ float of(int n, int i) const { return exact ? sum[n][i] + small[n][i] : sum[n][i]; }
};

/// left right over steps [begin, end) of eight numbers each, both even.
template <bool exact, int tiles, int together = 2, class Left, class Right>
__device__ Product<exact, tiles> multiply(int begin, int end, const Left& left, const Right& right) {
  Product<exact, tiles> product;
#pragma unroll 1
  for (int first = begin; first < end; first += together) {
#pragma unroll
    for (int k = 0; k < together; ++k) {
      float a[4], b[tiles][2];
      left.load(first + k, a);
      right.load(first + k, b);
      product.add(a, b);
    }
  }
  return product;
}

/// The same with a left operand that is the result of a product, of which only steps [begin, end) count.
template <bool exact, int tiles, int steps, class Right>
__device__ Product<exact, tiles> multiply(int begin, int end, const float (&left)[steps][4], const Right& right) {
  Product<exact, tiles> product;
#pragma unroll
  for (int k = 0; k < steps; ++k) {
    if (k < begin || k >= end) continue;
    // Its rows are row and row + 8, and the neighbours that a lane has count as numbers t and t + 4.
    const float a[4] = {left[k][0], left[k][2], left[k][1], left[k][3]};
    float b[tiles][2];
    right.load(k, b);
    product.add(a, b);
  }
  return product;
}

/// Where rows of numbers begin, how far apart they are, and how many rows and numbers of a row count. In bfloat16 rows
/// are whole vectors of four.
template <class T>
struct StripOf {
  const T* data;
  std::size_t stride;
  int rows, width;
};
using Strip = StripOf<float>;
using BrainStrip = StripOf<device::Brain>;

/// Starts the copy of `rows` rows by the whole block; what does not count becomes zero.
template <int rows, int columns>
__device__ void fetch(const Matrix<columns>& to, const Strip& from) {
  const int thread = static_cast<int>(threadIdx.x);
  if (from.width % 4 == 0 && from.stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(from.data) % 16 == 0) {
    constexpr int step = block_threads / (columns / 4);  // rows at a time, a multiple of eight
    const int row = thread / (columns / 4), column = thread % (columns / 4) * 4;
    const int left = column < from.width ? from.rows - row : 0;
    const float* source = from.data + row * from.stride + column;
    float* place = &to.at(row, column);
#pragma unroll
    for (int i = 0; i < rows; i += step) {
      device::tiles::copy_four(place + i * columns, i < left ? source : from.data, i < left);
      source += step * from.stride;
    }
    return;
  }
#pragma unroll 1
  for (int i = thread; i < rows * columns; i += block_threads) {
    const int row = i / columns, column = i % columns;
    const bool valid = row < from.rows && column < from.width;
    __pipeline_memcpy_async(&to.at(row, column), valid ? from.data + row * from.stride + column : from.data, 4,
                            valid ? 0 : 4);
  }
}

/// The share of a thread in rows of bfloat16: every `step`-th row from its own on, four neighbouring numbers of each.
template <int rows, int columns>
struct BrainShare {
  static constexpr int step = block_threads / (columns / 4), count = rows / step;  // of rows; a multiple of eight
  static __device__ int row() { return static_cast<int>(threadIdx.x) / (columns / 4); }
  static __device__ int column() { return static_cast<int>(threadIdx.x) % (columns / 4) * 4; }

  /// take(k, four numbers, whether they count).
  template <class Take>
  static __device__ void each(const BrainStrip& from, const Take& take) {
    const int left = column() < from.width ? from.rows - row() : 0;
    const device::Brain* source = from.data + row() * from.stride + column();
#pragma unroll
    for (int k = 0; k < count; ++k) {
      take(k, reinterpret_cast<const uint2*>(k * step < left ? source : from.data), k * step < left);
      source += step * from.stride;
    }
  }
  /// As float, to where products read them; four(k) are the numbers.
  template <class Four>
  static __device__ void widen(const Matrix<columns>& to, const Four& four) {
    float* place = &to.at(row(), column());
#pragma unroll
    for (int k = 0; k < count; ++k) {
      const uint2 numbers = four(k);
      const float2 low = device::floats_of(numbers.x), high = device::floats_of(numbers.y);
      *reinterpret_cast<float4*>(place + k * step * columns) = make_float4(low.x, low.y, high.x, high.y);
    }
  }
};

/// Rows of bfloat16 in registers: they are read first, so that all of a block's reads wait together.
template <int rows, int columns>
struct Carried {
  using Share = BrainShare<rows, columns>;
  uint2 fours[Share::count];
  __device__ explicit Carried(const BrainStrip& from) {
    Share::each(from, [&](int k, const uint2* four, bool counts) { fours[k] = counts ? *four : uint2{}; });
  }
  __device__ void put(const Matrix<columns>& to) const {
    Share::widen(to, [&](int k) { return fours[k]; });
  }
};

template <int rows, int columns>
__device__ void fetch(const Matrix<columns>& to, const BrainStrip& from) {
  Carried<rows, columns>(from).put(to);
}
/// Both at once; last, since what is read by bfloat16 is waited for here.
template <int rows, int columns, class T>
__device__ void fetch_both(const Matrix<columns>& first, const StripOf<T>& from_first, const Matrix<columns>& second,
                           const StripOf<T>& from_second) {
  if constexpr (std::is_same_v<T, float>) {
    fetch<rows>(first, from_first);
    fetch<rows>(second, from_second);
  } else {
    const Carried<rows, columns> of_first(from_first), of_second(from_second);
    of_first.put(first);
    of_second.put(second);
  }
}

/// The same in shared memory, where a copy brings them; a thread widens what it asked for itself.
template <int rows, int columns>
struct Arriving {
  using Share = BrainShare<rows, columns>;
  uint2 fours[Share::count][block_threads];
  __device__ void fetch(const BrainStrip& from) {
    Share::each(from, [&](int k, const uint2* four, bool counts) {
      __pipeline_memcpy_async(&fours[k][threadIdx.x], four, 8, counts ? 0 : 8);
    });
  }
  __device__ void put(const Matrix<columns>& to) const {
    Share::widen(to, [&](int k) { return fours[k][threadIdx.x]; });
  }
};

}  // namespace afterglow::scan
