// Cholesky factorisation G + eps I = L L^T and L^-1 in shared memory, by blocks of 16 x 16: one warp factorises a
// diagonal block in registers, everything else is products of blocks.
#pragma once
#include "gpu/ops/ridge/ridge.cuh"

namespace afterglow::device {

/// The number added to the diagonal after `tries` failures: eps, then 1e-4 more each time; from the tenth failure on
/// the step doubles, so that the loop ends.
__device__ inline float added_to_diagonal(float ridge, int tries) {
  float added = ridge, step = 1e-4f;
  for (int i = 0; i < tries; ++i) {
    if (i >= 10) step *= 2.0f;
    added += step;
  }
  return added;
}

/// 1 / sqrt(x) to the last digit or two: the fast instruction and one Newton step.
__device__ inline float inverse_root(float x) {
  const float y = rsqrtf(x);
  return y * (1.5f - 0.5f * x * y * y);
}

/// A 16 x 16 block of a product, computed by one warp.
struct BlockSum {
  float v[1][2][4] = {};

  template <int W, class Left, class Right>
  __device__ void add(const Left& a, int row, const Right& b, int column, int depth) {
#pragma unroll
    for (int k = depth; k < depth + 16; k += 8) {
      tiles::Fragment<true, 4> left[1];
      tiles::Fragment<true, 2> right[2];
      fetch<W>(left[0], a, row, k);
      fetch<W>(right, b, column, k);
      tiles::multiply_fragments<true>(v, left, right);
    }
  }
  /// Calls change(position of two neighbours, the two sums).
  template <int W, class Change>
  __device__ void pairs(float* to, int row, int column, const Change& change) const {
    row += ridge_lane() / 4;
    column += ridge_lane() % 4 * 2;
    unrolled<2, 2>([&](int half, int j) {
      auto& place = *reinterpret_cast<float2*>(to + Grid<W>::place(row + 8 * half, column + 8 * j));
      change(place, v[0][j][2 * half], v[0][j][2 * half + 1]);
    });
  }
  /// Overwrites a block that only this warp has read.
  template <int W>
  __device__ void store(float* to, int row, int column, float factor = 1.0f) const {
    __syncwarp();
    pairs<W>(to, row, column, [&](float2& place, float a, float b) { place = make_float2(factor * a, factor * b); });
    __syncwarp();
  }
};

template <int W>
__device__ void load_sixteen(float (&to)[16], const float* from, int row, int column) {
#pragma unroll
  for (int j = 0; j < 16; j += 4) {
    const float4 four = *reinterpret_cast<const float4*>(from + Grid<W>::place(row, column + j));
    to[j] = four.x;
    to[j + 1] = four.y;
    to[j + 2] = four.z;
    to[j + 3] = four.w;
  }
}

__device__ inline void store_numbers(float* to, const float (&from)[16]) {
#pragma unroll
  for (int j = 0; j < 16; j += 4)
    *reinterpret_cast<float4*>(to + j) = make_float4(from[j], from[j + 1], from[j + 2], from[j + 3]);
}

/// One warp turns a diagonal block into L and writes its inverse: lanes 0 to 15 hold the rows of the matrix, the others
/// those of the identity, and the same row operations turn one into L^T and the other into L^-1. Rows from `rank` on
/// are those of the identity, and their inverse counts as zero. False when a pivot is not positive.
/// Not unrolled: a block runs each instruction a few times at most, and fetching instructions would dominate. The
/// pivot's row is broadcast through two rows of the inverse whose swizzle is the identity (`Grid::swizzle`). The
/// remaining matrix is symmetric, so a row also finds its own number of the pivot's column there.
template <int W>
__device__ bool factorise_diagonal(float* matrix, float* inverse, int first, int rank) {
  constexpr int width = Grid<W>::width;
  const int lane = ridge_lane(), row = lane % 16, half = lane / 16, count = min(16, rank - first);
  float v[16], own_pivot = 1;
  load_sixteen<W>(v, matrix, first + row, first);
  unrolled<16>([&](int j) { v[j] = half == 0 ? v[j] : j == row ? 1.0f : 0.0f; });
  bool positive = true;
  const float* const pivots = inverse + first * width + first;  // of the matrix; those of the identity 8 rows below
  float* const sent = inverse + (first + 8 * half) * width + first;
  float* const finished = matrix + (first + row) * width;
#pragma unroll 1
  for (int k = 0; k < count; ++k) {
    __syncwarp();  // all lanes have read the row before, and at first the matrix
    if (row == k) store_numbers(sent, v);
    __syncwarp();
    const float pivot = pivots[k], own = pivots[row];
    positive = positive && pivot > 0.0f;
    if (row == k) own_pivot = pivot;
    if (half == 0) finished[(first + k) ^ Grid<W>::swizzle(first + row)] = row >= k ? own : 0.0f;
    // Columns up to k of L are finished and no longer used; those of the inverse behind k are zero.
    const float factor = row > k ? __fdividef(own, pivot) : 0.0f;
#pragma unroll
    for (int j = 0; j < 16; j += 4) {
      const float4 four = *reinterpret_cast<const float4*>(sent + j);
      v[j] -= factor * four.x;
      v[j + 1] -= factor * four.y;
      v[j + 2] -= factor * four.z;
      v[j + 3] -= factor * four.w;
    }
  }
  __syncwarp();
  // All roots at once, off the critical path between pivots: of columns of L, and of rows of the inverse.
  const float root = inverse_root(own_pivot);
  if (half == 0) load_sixteen<W>(v, matrix, first + row, first);
  unrolled<16>([&](int j) {
    const float of_column = __shfl_sync(full_warp, root, j);
    v[j] = j > row || (half == 1 && first + row >= rank) ? 0.0f : v[j] * (half == 0 ? of_column : root);
  });
  float* const to = half == 0 ? matrix : inverse;
#pragma unroll
  for (int j = 0; j < 16; j += 4)
    *reinterpret_cast<float4*>(to + Grid<W>::place(first + row, first + j)) =
        make_float4(v[j], v[j + 1], v[j + 2], v[j + 3]);
  return positive;
}

/// Completes the inverse from L and the inverses of its diagonal blocks; the rest of `inverse` is zero. Uses the upper
/// right quarter of `L` as scratch.
template <int W>
__device__ void complete_inverse(float* L, float* inverse) {
  if (ridge_warp() < W / 2) {
    const int first = 32 * ridge_warp();
    BlockSum between, below;
    between.add<W>(ByRows{L}, first + 16, ByColumns{inverse}, first, first);
    between.store<W>(inverse, first + 16, first);
    below.add<W>(ByRows{inverse}, first + 16, ByColumns{inverse}, first, first + 16);
    below.store<W>(inverse, first + 16, first, -1.0f);
  }
  __syncthreads();
  if constexpr (W == 4) {
    const int row = ridge_warp() / 2 * 16, column = ridge_warp() % 2 * 16;
    if (row < 32) {
      BlockSum between;
      for (int k = column; k < 32; k += 16) between.add<W>(ByRows{L}, 32 + row, ByColumns{inverse}, column, k);
      between.store<W>(L, row, 32 + column);
    }
    __syncthreads();
    if (row < 32) {
      BlockSum below;
      for (int k = 32; k <= 32 + row; k += 16)
        below.add<W>(ByRows{inverse}, 32 + row, ByColumns{L, -32}, 32 + column, k);
      below.store<W>(inverse, 32 + row, column, -1.0f);
    }
    __syncthreads();
  }
}

/// The updates after diagonal block b: the blocks below it, and then the rest of the matrix. Warp 0 updates the next
/// diagonal block.
template <int W, int warps>
__device__ void update_behind(int b, int blocks, float* L, const float* inverse) {
  const int warp = ridge_warp();
  for (int i = b + 1 + warp; i < blocks; i += warps) {
    BlockSum panel;
    panel.add<W>(ByRows{L}, 16 * i, ByRows{inverse}, 16 * b, 16 * b);
    panel.store<W>(L, 16 * i, 16 * b);
  }
  __syncthreads();
  int next = 0;
  for (int i = b + 1; i < blocks; ++i) {
    for (int j = b + 1; j <= i; ++j) {
      const int owner = i == b + 1 ? 0 : 1 + next++ % (warps - 1);
      if (owner != warp) continue;
      BlockSum update;
      update.add<W>(ByRows{L}, 16 * i, ByRows{L}, 16 * j, 16 * b);
      update.pairs<W>(L, 16 * i, 16 * j, [](float2& place, float first, float second) {
        place = make_float2(place.x - first, place.y - second);
      });
    }
  }
  __syncwarp();
}

/// Factorises G + added I = L L^T in place of `L`, whose rows and columns from `rank` on are zero; `inverse` receives
/// the inverses of the diagonal blocks. The upper triangle of L outside those blocks stays undefined. False when a
/// pivot is not positive. `warps`: of the block.
template <int W, int warps>
__device__ bool factorise_loaded(float added, int rank, float* L, float* inverse) {
  __shared__ bool positive;
  for (int i = int(threadIdx.x); i < Grid<W>::width; i += 32 * warps) {
    float& place = L[Grid<W>::place(i, i)];
    place = i < rank ? place + added : 1.0f;
  }
  __syncthreads();
  const int warp = ridge_warp(), blocks = (rank + 15) / 16;
  for (int b = 0; b < blocks; ++b) {
    if (b > 0) update_behind<W, warps>(b - 1, blocks, L, inverse);
    // The other warps still update the rest.
    if (warp == 0) {
      const bool fine = factorise_diagonal<W>(L, inverse, 16 * b, rank);
      if (threadIdx.x == 0) positive = fine;
    }
    __syncthreads();
    if (!positive) break;
  }
  const bool fine = positive;
  __syncthreads();
  return fine;
}

/// One attempt at G + added I = L L^T, with G loaded into `L` first unless it is there. Both buffers are in shared
/// memory.
template <int W>
__device__ bool factorise(const float* G, bool is_loaded, float added, int rank, float* L, float* inverse) {
  __syncthreads();
  if (!is_loaded) load_matrix<W>(L, G, rank, rank);
  clear_matrix<W>(inverse);
  wait_for_copies();
  return factorise_loaded<W, ridge_warps<W>>(added, rank, L, inverse);
}

constexpr int max_tries = 60;  // to factorise, with more and more on the diagonal

/// L and L^-1 of G + eps I; adds to the diagonal until the factorisation succeeds and returns the number of failures.
/// Also stores L in global memory [rank, rank]. `is_loaded`: `L` holds G already.
template <int W>
__device__ int whiten(const float* G, bool is_loaded, float ridge, int rank, float* L, float* inverse, float* stored) {
  const auto succeeds = [&](int tries) {
    return factorise<W>(G, is_loaded && tries == 0, added_to_diagonal(ridge, tries), rank, L, inverse);
  };
  int tries = 0;
  while (tries < max_tries && !succeeds(tries)) ++tries;
  for (int i = int(threadIdx.x); i < rank * rank; i += ridge_threads<W>) {
    const int row = i / rank, column = i % rank;
    stored[i] = row >= column ? L[Grid<W>::place(row, column)] : 0.0f;
  }
  complete_inverse<W>(L, inverse);
  return tries;
}

/// The rows and columns of a matrix in shared memory that a lane owns; of small matrices in registers.
template <int W>
struct OwnLines {
  static constexpr int width = Grid<W>::width, each = (width + 31) / 32;  // numbers of a vector a lane
  static constexpr bool is_small = W <= 2;
  const float* matrix;
  float4 row[is_small ? width / 4 : 1], column[is_small ? width / 4 : 1];

  __device__ static int own(int j) { return (ridge_lane() + 32 * j) % width; }
  __device__ static bool is_owner(int j) { return ridge_lane() + 32 * j < width; }
  __device__ explicit OwnLines(const float* from) : matrix(from) {
    if constexpr (is_small) {
#pragma unroll
      for (int k = 0; k < width; k += 4) {
        row[k / 4] = read<true>(0, k);
        column[k / 4] = read<false>(0, k);
      }
    }
  }
  template <bool by_rows>
  __device__ float4 read(int j, int k) const {
    if constexpr (by_rows) return *reinterpret_cast<const float4*>(matrix + Grid<W>::place(own(j), k));
    return make_float4(matrix[Grid<W>::place(k, own(j))], matrix[Grid<W>::place(k + 1, own(j))],
                       matrix[Grid<W>::place(k + 2, own(j))], matrix[Grid<W>::place(k + 3, own(j))]);
  }
  template <bool by_rows>
  __device__ float4 line(int j, int k) const {
    if constexpr (!is_small) return read<by_rows>(j, k);
    return by_rows ? row[k / 4] : column[k / 4];
  }
  /// The lane's numbers of the matrix (or by columns of its transpose) times a vector in shared memory; `square` is the
  /// vector's squared norm, which each lane computes itself, faster than a reduction.
  template <bool by_rows>
  __device__ void multiply(const float* vector, float (&result)[each], float& square) const {
    float4 squares = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int j = 0; j < each; ++j) {
      float4 sums = make_float4(0, 0, 0, 0);
#pragma unroll
      for (int k = 0; k < width; k += 4) {
        const float4 x = *reinterpret_cast<const float4*>(vector + k), a = line<by_rows>(j, k);
        sums.x += a.x * x.x;
        sums.y += a.y * x.y;
        sums.z += a.z * x.z;
        sums.w += a.w * x.w;
        if (j > 0) continue;
        squares.x += x.x * x.x;
        squares.y += x.y * x.y;
        squares.z += x.z * x.z;
        squares.w += x.w * x.w;
      }
      result[j] = (sums.x + sums.y) + (sums.z + sums.w);
    }
    square = (squares.x + squares.y) + (squares.z + squares.w);
  }
  __device__ static void put(float* vector, const float (&numbers)[each]) {
    unrolled<each>([&](int j) {
      if (is_owner(j)) vector[own(j)] = numbers[j];
    });
    __syncwarp();
  }
};

/// |A v| after `iterations` normalised steps v <- A^T A v from ones / sqrt(r), computed by the first warp, since each
/// step depends on the previous one. The norm is computed along with the product.
template <int W>
__device__ float max_singular_value(const float* A, int rank, int iterations) {
  using Lines = OwnLines<W>;
  __shared__ __align__(16) float v[Lines::width], u[Lines::width];
  __shared__ float found;
  if (ridge_warp() == 0) {
    const Lines lines(A);
    float numbers[Lines::each], square = 0;
    unrolled<Lines::each>([&](int j) { numbers[j] = Lines::own(j) < rank ? 1.0f : 0.0f; });
#pragma unroll 1
    for (int i = 0;; ++i) {
      Lines::put(v, numbers);
      lines.template multiply<true>(v, numbers, square);
      const float inverse = square > 0 ? inverse_root(square) : 0.0f;
      unrolled<Lines::each>([&](int j) { numbers[j] *= inverse; });
      if (i == iterations) break;
      Lines::put(u, numbers);
      lines.template multiply<false>(u, numbers, square);
    }
    float share = 0;
    unrolled<Lines::each>([&](int j) { share += Lines::is_owner(j) ? numbers[j] * numbers[j] : 0.0f; });
    const float length = sqrtf(warp_sum(share));
    if (ridge_lane() == 0) found = length;
  }
  __syncthreads();
  return found;
}

}  // namespace afterglow::device
