// What the way there and the way back through the SKA core share: sizes, products of small matrices in shared memory,
// and the whitening G + eps I = L L^T with L^-1.
//
// A block has 16 x 16 threads and each holds W x W numbers of a result, so matrices are at most 16 W wide: W is 2 up to
// 32, 4 up to 64. In shared memory a matrix is zero-padded to 16 W x 16 W.
#pragma once
#include "core/backend/backend.h"
#include "gpu/cuda_device.cuh"

namespace afterglow::device {

struct RidgeShape {
  int batch, length, heads, rank, width;
  int piece, groups;        ///< statistics are sums over pieces; the queries of group g are the positions of piece g
  bool exclusive, running;  ///< without piece g itself; m over the contributing pieces only
  int power, iterations;
  float ridge;

  __host__ __device__ int square() const { return rank * rank; }
  __host__ __device__ int tall() const { return width * rank; }
  __device__ std::size_t token(int pair, int t) const {  ///< row of [B,T,H,.] for pair = b heads + h
    return (static_cast<std::size_t>(pair / heads) * length + t) * heads + pair % heads;
  }
  __device__ int first(int g) const { return g * piece; }
  __device__ int count(int g) const { return min(piece, length - g * piece); }
};

struct RidgePointers {
  const float *z, *q, *v, *eta, *gamma_raw;
  const std::uint8_t* mask;  ///< null unless the mode is masked
  float *G, *M, *L, *A_w, *C, *F, *m, *sigma, *jitter;
  int* m_index;
};

inline RidgeShape ridge_shape(const RidgeConfig& config, const RidgeInputs& in) {
  RidgeShape s{};
  s.batch = static_cast<int>(in.z.shape[0]);
  s.length = static_cast<int>(in.z.shape[1]);
  s.heads = static_cast<int>(in.z.shape[2]);
  s.rank = static_cast<int>(in.z.shape[3]);
  s.width = static_cast<int>(in.v.shape[3]);
  s.exclusive = config.mode == RidgeConfig::Mode::chunk;
  s.piece = s.exclusive ? config.chunk : config.mode == RidgeConfig::Mode::recurrent ? 1 : s.length;
  s.groups = static_cast<int>(config.groups(s.length));
  s.running = config.mode == RidgeConfig::Mode::recurrent || (s.exclusive && config.norm == RidgeConfig::Norm::prefix);
  s.power = config.power;
  s.iterations = config.power_iterations;
  s.ridge = static_cast<float>(config.ridge);
  if (s.rank > 64 || s.width > 64) {
    throw Error(ExitCode::failure, "the GPU's SKA core takes ranks and head widths up to 64, and these are " +
                                       std::to_string(s.rank) + " and " + std::to_string(s.width) +
                                       "; use more heads or --device cpu");
  }
  return s;
}

inline RidgePointers ridge_pointers(const RidgeConfig& config, const RidgeInputs& in, const RidgeSaved& saved) {
  return {in.z.as<float>(),         in.q.as<float>(),
          in.v.as<float>(),         in.eta.as<float>(),
          in.gamma_raw.as<float>(), config.mode == RidgeConfig::Mode::masked ? in.mask.as<std::uint8_t>() : nullptr,
          saved.G.as<float>(),      saved.M.as<float>(),
          saved.L.as<float>(),      saved.A_w.as<float>(),
          saved.C.as<float>(),      saved.F.as<float>(),
          saved.m.as<float>(),      saved.sigma.as<float>(),
          saved.jitter.as<float>(), saved.m_index.as<int>()};
}

constexpr float smallest_scale = 1e-6f;  // m is at least this

template <int W>
struct Grid {
  static constexpr int width = 16 * W;
  static constexpr int stride = width + 4;  // rows start 4 banks apart, and 16-byte aligned
  static constexpr int size = width * stride;
};

template <int W>
struct Vector;
template <>
struct Vector<2> {
  using type = float2;
};
template <>
struct Vector<4> {
  using type = float4;
};

template <int W>
__device__ void load_vector(float (&to)[W], const float* from) {
  const auto value = *reinterpret_cast<const typename Vector<W>::type*>(from);
#pragma unroll
  for (int i = 0; i < W; ++i) to[i] = reinterpret_cast<const float*>(&value)[i];
}

/// W x W numbers of a result. Rows and columns of a thread are `packed` side by side (operands read along them as
/// vectors) or strewn 16 apart (operands read along the summed axis, free of bank conflicts).
template <int W, bool packed_rows, bool packed_columns>
struct Product {
  float v[W][W];

  __device__ static int row(int i) {
    const int ty = static_cast<int>(threadIdx.x) / 16;
    return packed_rows ? W * ty + i : ty + 16 * i;
  }
  __device__ static int column(int j) {
    const int tx = static_cast<int>(threadIdx.x) % 16;
    return packed_columns ? W * tx + j : tx + 16 * j;
  }
  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < W; ++i)
#pragma unroll
      for (int j = 0; j < W; ++j) v[i][j] = 0;
  }
  /// body(row, column, number)
  template <class Body>
  __device__ void each(const Body& body) const {
#pragma unroll
    for (int i = 0; i < W; ++i)
#pragma unroll
      for (int j = 0; j < W; ++j) body(row(i), column(j), v[i][j]);
  }
  /// Into shared memory that nothing reads any more; the caller has a barrier before and after.
  __device__ void store(float* to, float factor = 1.0f) const {
    each([&](int i, int j, float value) { to[i * Grid<W>::stride + j] = factor * value; });
  }
  /// The same with the barriers: for a result that replaces one of its operands.
  __device__ void replace(float* to, float factor = 1.0f) const {
    __syncthreads();
    store(to, factor);
    __syncthreads();
  }
  __device__ void add_to(float* to) const {
    each([&](int i, int j, float value) { to[i * Grid<W>::stride + j] += value; });
  }
  /// Into a matrix [rows, columns] in global memory.
  __device__ void store_global(float* to, int rows, int columns, float factor = 1.0f) const {
    each([&](int i, int j, float value) {
      if (i < rows && j < columns) to[i * columns + j] = factor * value;
    });
  }
  /// Sum of products with a matrix in shared memory; this thread's share.
  __device__ float dot(const float* with) const {
    float sum = 0;
    each([&](int i, int j, float value) { sum += value * with[i * Grid<W>::stride + j]; });
    return sum;
  }
};

template <int W>
using RowsRows = Product<W, false, false>;  // a b^T
template <int W>
using RowsColumns = Product<W, false, true>;  // a b
template <int W>
using ColumnsColumns = Product<W, true, true>;  // a^T b

/// out += a b^T, summed over the first `depth` columns (zero-padded to a multiple of four).
template <int W>
__device__ void multiply(RowsRows<W>& out, const float* a, const float* b, int depth) {
  constexpr int stride = Grid<W>::stride;
  const int tx = static_cast<int>(threadIdx.x) % 16, ty = static_cast<int>(threadIdx.x) / 16;
#pragma unroll 2
  for (int k = 0; k < depth; k += 4) {
    float4 left[W], right[W];
#pragma unroll
    for (int i = 0; i < W; ++i) left[i] = *reinterpret_cast<const float4*>(a + (ty + 16 * i) * stride + k);
#pragma unroll
    for (int j = 0; j < W; ++j) right[j] = *reinterpret_cast<const float4*>(b + (tx + 16 * j) * stride + k);
#pragma unroll
    for (int i = 0; i < W; ++i)
#pragma unroll
      for (int j = 0; j < W; ++j) {
        out.v[i][j] += left[i].x * right[j].x;
        out.v[i][j] += left[i].y * right[j].y;
        out.v[i][j] += left[i].z * right[j].z;
        out.v[i][j] += left[i].w * right[j].w;
      }
  }
}

/// out += a b.
template <int W>
__device__ void multiply(RowsColumns<W>& out, const float* a, const float* b, int depth) {
  constexpr int stride = Grid<W>::stride;
  const int tx = static_cast<int>(threadIdx.x) % 16, ty = static_cast<int>(threadIdx.x) / 16;
#pragma unroll 2
  for (int k = 0; k < depth; k += 4) {
    float left[W][4];
#pragma unroll
    for (int i = 0; i < W; ++i) load_vector<4>(left[i], a + (ty + 16 * i) * stride + k);
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      float right[W];
      load_vector<W>(right, b + (k + step) * stride + W * tx);
#pragma unroll
      for (int i = 0; i < W; ++i)
#pragma unroll
        for (int j = 0; j < W; ++j) out.v[i][j] += left[i][step] * right[j];
    }
  }
}

/// out += a^T b, summed over the first `depth` rows.
template <int W>
__device__ void multiply(ColumnsColumns<W>& out, const float* a, const float* b, int depth) {
  constexpr int stride = Grid<W>::stride;
  const int tx = static_cast<int>(threadIdx.x) % 16, ty = static_cast<int>(threadIdx.x) / 16;
#pragma unroll 4
  for (int k = 0; k < depth; ++k) {
    float left[W], right[W];
    load_vector<W>(left, a + k * stride + W * ty);
    load_vector<W>(right, b + k * stride + W * tx);
#pragma unroll
    for (int i = 0; i < W; ++i)
#pragma unroll
      for (int j = 0; j < W; ++j) out.v[i][j] += left[i] * right[j];
  }
}

/// Fills a padded matrix from rows in global memory: row i is at from(i), or null for zeros.
template <int W, class From>
__device__ void load_rows(float* to, int columns, const From& from) {
  constexpr int width = Grid<W>::width, stride = Grid<W>::stride;
  if (columns % 4 == 0) {
#pragma unroll
    for (int n = 0; n < width * width / 4 / threads; ++n) {
      const int i = static_cast<int>(threadIdx.x) + n * threads, row = i / (width / 4), column = i % (width / 4) * 4;
      const float* source = from(row);
      float4 value = make_float4(0, 0, 0, 0);
      if (source != nullptr && column < columns) value = *reinterpret_cast<const float4*>(source + column);
      *reinterpret_cast<float4*>(to + row * stride + column) = value;
    }
    return;
  }
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < width * width; i += threads) {
    const int row = i / width, column = i % width;
    const float* source = from(row);
    to[row * stride + column] = source != nullptr && column < columns ? source[column] : 0.0f;
  }
}

template <int W>
__device__ void load_matrix(float* to, const float* from, int rows, int columns) {
  load_rows<W>(to, columns, [&](int row) { return row < rows ? from + row * columns : nullptr; });
}

template <int W>
__device__ void clear_matrix(float* to) {
  for (int i = static_cast<int>(threadIdx.x); i < Grid<W>::size; i += threads) to[i] = 0;
}

__device__ inline int padded(int depth) { return (depth + 3) / 4 * 4; }

/// What was added to the diagonal after `tries` failures: eps, then 1e-4 more each time, and from the tenth time on
/// twice as much each time, so that it ends.
__device__ inline float added_to_diagonal(float ridge, int tries) {
  float added = ridge, step = 1e-4f;
  for (int i = 0; i < tries; ++i) {
    if (i >= 10) step *= 2.0f;
    added += step;
  }
  return added;
}

/// 1 / sqrt(x) to the last digit or two: the fast instruction and a Newton step.
__device__ inline float inverse_root(float x) {
  const float y = rsqrtf(x);
  return y * (1.5f - 0.5f * x * y * y);
}

/// One attempt at G + added I = L L^T, together with L^-1 (into shared memory, cleared before). Column by column; the
/// same row operations that make L turn the identity into L^-1. Both are scaled by the roots of the pivots at the end,
/// which keeps the steps short. `exchange` holds 5 x 16 W numbers. L may be null.
template <int W>
__device__ bool factorise(const float* G, float added, int rank, float* L, float* inverse, float* exchange) {
  constexpr int width = Grid<W>::width;
  const int tx = static_cast<int>(threadIdx.x) % 16, ty = static_cast<int>(threadIdx.x) / 16;
  float* roots = exchange + 4 * width;
  float a[W][W], n[W][W];
#pragma unroll
  for (int i = 0; i < W; ++i)
#pragma unroll
    for (int j = 0; j < W; ++j) {
      const int row = ty + 16 * i, column = tx + 16 * j;
      n[i][j] = row == column ? 1.0f : 0.0f;
      a[i][j] = row < rank && column < rank ? G[row * rank + column] : 0.0f;
      if (row == column) a[i][j] += added;
    }
  __syncthreads();
#pragma unroll
  for (int base = 0; base < W; ++base) {
    for (int k = 16 * base; k < min(rank, 16 * base + 16); ++k) {
      float *column = exchange + k % 2 * 2 * width, *row = column + width;
      if (tx == k % 16) {
#pragma unroll
        for (int i = base; i < W; ++i) column[ty + 16 * i] = a[i][base];
      }
      if (ty == k % 16) {
#pragma unroll
        for (int j = 0; j <= base; ++j) row[tx + 16 * j] = n[base][j];
      }
      __syncthreads();
      const float pivot = column[k];
      if (!(pivot > 0.0f)) return false;
      const float root = inverse_root(pivot), reciprocal = root * root;
      if (threadIdx.x == 0) roots[k] = root;
#pragma unroll
      for (int i = base; i < W; ++i) {
        const int r = ty + 16 * i;
        const float factor = r > k ? column[r] * reciprocal : 0.0f;
#pragma unroll
        for (int j = base; j < W; ++j) {
          // Columns up to k are finished and keep what L needs of them.
          const bool open = j > base || tx > k % 16;
          a[i][j] -= factor * (open ? column[tx + 16 * j] : 0.0f);
        }
#pragma unroll
        for (int j = 0; j <= base; ++j) n[i][j] -= factor * row[tx + 16 * j];
      }
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < W; ++i)
#pragma unroll
    for (int j = 0; j < W; ++j) {
      const int row = ty + 16 * i, column = tx + 16 * j;
      if (row >= rank || column >= rank) continue;
      inverse[row * Grid<W>::stride + column] = n[i][j] * roots[row];
      if (L != nullptr) L[row * rank + column] = row >= column ? a[i][j] * roots[column] : 0.0f;
    }
  __syncthreads();
  return true;
}

/// Tries until it succeeds; returns how often it had to add to the diagonal.
template <int W>
__device__ int whiten(const float* G, float ridge, int rank, float* L, float* inverse, float* exchange) {
  constexpr int most_tries = 60;
  for (int tries = 0; tries < most_tries; ++tries) {
    if (factorise<W>(G, added_to_diagonal(ridge, tries), rank, L, inverse, exchange)) return tries;
  }
  return most_tries;
}

/// Widths up to 32 take the small tile, others the large one.
template <class Small, class Large>
void with_grid(const RidgeShape& s, const Small& small, const Large& large) {
  if (s.rank <= 32 && s.width <= 32) {
    small();
  } else {
    large();
  }
}

}  // namespace afterglow::device
