// Large exact products on tensor cores of any architecture: operands are split into tf32 numbers and remainders, and
// three products (tiles.cuh) are faster than float32 arithmetic and as accurate. Grid: (columns, rows, shares of the
// depth), one 128 x 112 tile a block.
#include <algorithm>

#include "gpu/cuda_backend.h"
#include "gpu/device/device.cuh"
#include "gpu/device/fragments.cuh"
#include "gpu/device/launch.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr int tile_rows = 128, tile_columns = 112;            // of a block: 4 x 2 warps
constexpr int row_parts = 2, column_parts = 7;                // fragments of 16 rows and of 8 columns a warp
constexpr int slab = 32, stages = 4;                          // depths of a stage, and stages in flight
constexpr std::int64_t min_products = std::int64_t{1} << 28;  // fewer multiplications do not fill the GPU
constexpr std::int64_t full = 128;  // blocks that fill the GPU; with fewer tiles blocks share the depth

struct LargeOperand {
  const float* data;
  unsigned stride;
};

struct LargeProduct {
  LargeOperand a, b;
  unsigned rows, columns, depth, share;  ///< depths of each block of a tile
  float alpha, beta;
  float* c;
  unsigned c_stride;
  float* partials;  ///< [blocks of a tile, rows, columns], or null when there is one
};

/// One stage of an operand in shared memory: a row for every line of a `deep` operand, otherwise a row for every depth.
/// The strides avoid bank conflicts.
template <bool deep, int lines>
struct Slab {
  static constexpr int stride = deep ? slab + 4 : lines + 8;
  static constexpr int elements = (deep ? lines : slab) * stride;

  /// Begins to copy lines [first, first + lines) at depths [from, from + slab); zeros outside.
  __device__ static void load(const LargeOperand& m, float* to, unsigned first, unsigned count, unsigned from,
                              unsigned depth) {
    constexpr unsigned fours = (deep ? slab : lines) / 4, all = (deep ? lines : slab) * fours;
    const unsigned outer_first = deep ? first : from, outer_end = deep ? count : depth;
    const unsigned inner_first = deep ? from : first, inner_end = deep ? depth : count;
#pragma unroll
    for (unsigned n = 0; n < (all + threads - 1) / threads; ++n) {
      const unsigned i = threadIdx.x + n * threads, outer = i / fours, inner = i % fours * 4;
      if (all % threads != 0 && i >= all) break;
      const bool inside = outer_first + outer < outer_end && inner_first + inner < inner_end;
      const unsigned bytes = inside ? min(4u, inner_end - inner_first - inner) * 4 : 0;
      const float* source = m.data + (inside ? std::size_t{outer_first + outer} * m.stride + inner_first + inner : 0);
      asm volatile(
          "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(tiles::shared_address(to + outer * stride + inner)),
          "l"(source), "r"(bytes)
          : "memory");
    }
  }
};

template <bool deep>
__device__ void fetch_rows(tiles::Fragment<true, 4> (&to)[row_parts], const float* from, int line, int depth) {
  using Rows = Slab<deep, tile_rows>;
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int i = 0; i < row_parts; ++i) {
    float value[4];
    if (deep) {
      tiles::load_four(from + (line + 16 * i + lane % 16) * Rows::stride + depth + lane / 16 * 4, value);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        value[e] = from[(depth + lane % 4 + e / 2 * 4) * Rows::stride + line + 16 * i + lane / 4 + e % 2 * 8];
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) to[i].set(e, value[e]);
  }
}

template <bool deep>
__device__ void fetch_columns(tiles::Fragment<true, 2> (&to)[column_parts], const float* from, int line, int depth) {
  using Columns = Slab<deep, tile_columns>;
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (!deep) {
#pragma unroll
    for (int n = 0; n < column_parts; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e)
        to[n].set(e, from[(depth + lane % 4 + e * 4) * Columns::stride + line + 8 * n + lane / 4]);
    return;
  }
  const float* row = from + (line + lane % 8) * Columns::stride + depth + lane / 8 % 2 * 4;
#pragma unroll
  for (int n = 0; n + 1 < column_parts; n += 2) {
    float value[4];
    tiles::load_four(row + (8 * n + lane / 16 * 8) * Columns::stride, value);
#pragma unroll
    for (int e = 0; e < 4; ++e) to[n + e / 2].set(e % 2, value[e]);
  }
  static_assert(column_parts % 2 == 1);
  float value[2];
  tiles::load_two(row + 8 * (column_parts - 1) * Columns::stride, value);
#pragma unroll
  for (int e = 0; e < 2; ++e) to[column_parts - 1].set(e, value[e]);
}

__device__ void store_tile(const LargeProduct& p, const float (&sum)[row_parts][column_parts][4], unsigned row,
                           unsigned column) {
  float* to = p.partials != nullptr ? p.partials + std::size_t{blockIdx.z} * p.rows * p.columns : p.c;
  const unsigned stride = p.partials != nullptr ? p.columns : p.c_stride;
  const float alpha = p.partials != nullptr ? 1.0f : p.alpha, beta = p.partials != nullptr ? 0.0f : p.beta;
#pragma unroll
  for (int i = 0; i < row_parts; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const unsigned r = row + 16 * i + 8 * half;
      float* line = to + std::size_t{r} * stride;
      float2 old[column_parts] = {};  // loaded together, so that the latencies overlap
#pragma unroll
      for (int j = 0; j < column_parts; ++j) {
        const unsigned c = column + 8 * j;
        if (beta != 0.0f && r < p.rows && c < p.columns) old[j] = *reinterpret_cast<const float2*>(line + c);
      }
#pragma unroll
      for (int j = 0; j < column_parts; ++j) {
        const unsigned c = column + 8 * j;
        if (r >= p.rows || c >= p.columns) continue;
        *reinterpret_cast<float2*>(line + c) = make_float2(fmaf(beta, old[j].x, alpha * sum[i][j][2 * half]),
                                                           fmaf(beta, old[j].y, alpha * sum[i][j][2 * half + 1]));
      }
    }
}

template <bool a_deep, bool b_deep>
constexpr int large_product_bytes = stages*(Slab<a_deep, tile_rows>::elements + Slab<b_deep, tile_columns>::elements) *
                                    static_cast<int>(sizeof(float));

template <bool a_deep, bool b_deep>
__global__ void __launch_bounds__(threads, 1) large_product_kernel(LargeProduct p) {
  wait_for_previous_kernel();
  using A = Slab<a_deep, tile_rows>;
  using B = Slab<b_deep, tile_columns>;
  extern __shared__ __align__(16) float memory[];
  const unsigned row = blockIdx.y * tile_rows, column = blockIdx.x * tile_columns, begin = blockIdx.z * p.share;
  const unsigned end = min(p.depth, begin + p.share), count = (end - begin + slab - 1) / slab;
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int own_row = warp / 2 * 16 * row_parts, own_column = warp % 2 * 8 * column_parts;
  const auto stage = [&](unsigned index) { return memory + index % stages * (A::elements + B::elements); };
  const auto bring = [&](unsigned index) {
    if (index < count) {
      A::load(p.a, stage(index), row, p.rows, begin + index * slab, end);
      B::load(p.b, stage(index) + A::elements, column, p.columns, begin + index * slab, end);
    }
    tiles::commit();
  };
  for (unsigned i = 0; i + 1 < stages; ++i) bring(i);
  float sum[row_parts][column_parts][4] = {};
  for (unsigned i = 0; i < count; ++i) {
    tiles::wait<stages - 2>();
    __syncthreads();
    bring(i + stages - 1);
    // The tensor cores truncate their sums: each stage starts from zero, and float32 adds it.
    float part[row_parts][column_parts][4] = {};
#pragma unroll
    for (int k = 0; k < slab; k += 8) {
      tiles::Fragment<true, 4> left[row_parts];
      tiles::Fragment<true, 2> right[column_parts];
      fetch_rows<a_deep>(left, stage(i), own_row, k);
      fetch_columns<b_deep>(right, stage(i) + A::elements, own_column, k);
      tiles::multiply_fragments<true>(part, left, right);
    }
#pragma unroll
    for (int r = 0; r < row_parts; ++r)
#pragma unroll
      for (int c = 0; c < column_parts; ++c)
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[r][c][e] += part[r][c][e];
  }
  store_tile(p, sum, row + static_cast<unsigned>(own_row + lane / 4),
             column + static_cast<unsigned>(own_column + lane % 4 * 2));
}

// Adds the partial sums of all blocks of a tile in order; a thread adds four numbers.
__global__ void __launch_bounds__(threads) add_partials_kernel(LargeProduct p, unsigned shares) {
  wait_for_previous_kernel();
  const unsigned fours = p.columns / 4, i = blockIdx.x * threads + threadIdx.x;
  if (i >= p.rows * fours) return;
  const unsigned row = i / fours, column = i % fours * 4;
  float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
  for (unsigned n = 0; n < shares; ++n) {
    const float4 part =
        *reinterpret_cast<const float4*>(p.partials + (std::size_t{n} * p.rows + row) * p.columns + column);
    sum = make_float4(sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w);
  }
  auto& place = *reinterpret_cast<float4*>(p.c + std::size_t{row} * p.c_stride + column);
  const float4 old = p.beta != 0.0f ? place : make_float4(0, 0, 0, 0);
  place = make_float4(fmaf(p.beta, old.x, p.alpha * sum.x), fmaf(p.beta, old.y, p.alpha * sum.y),
                      fmaf(p.beta, old.z, p.alpha * sum.z), fmaf(p.beta, old.w, p.alpha * sum.w));
}

template <bool a_deep, bool b_deep>
void launch_large_product(cudaStream_t stream, const LargeProduct& p, unsigned shares) {
  constexpr int bytes = large_product_bytes<a_deep, b_deep>;
  const auto kernel = large_product_kernel<a_deep, b_deep>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes, "a large product");
  launch(kernel, dim3(blocks_for(p.columns, tile_columns), blocks_for(p.rows, tile_rows), shares), threads, bytes,
         stream, p);
}

bool is_aligned(const Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.data) % 16 == 0 && tensor.row_stride % 4 == 0 &&
         tensor.columns() % 4 == 0;
}

}  // namespace

bool ProductPlanner::large_product(bool transpose_a, bool transpose_b, double alpha, const Tensor& a, const Tensor& b,
                                   double beta, const Tensor& c) {
  const std::int64_t rows = c.rows(), columns = c.columns(), depth = transpose_a ? a.rows() : a.columns();
  const std::int64_t row_tiles = blocks_for(rows, tile_rows), column_tiles = blocks_for(columns, tile_columns);
  const bool is_wasteful = row_tiles * tile_rows * column_tiles * tile_columns > rows * columns * 3 / 2;
  if (rows * columns * depth < min_products || is_wasteful || !is_aligned(a) || !is_aligned(b) || !is_aligned(c) ||
      (transpose_a && transpose_b)) {
    return false;
  }
  const std::int64_t wanted = std::max<std::int64_t>(full / (row_tiles * column_tiles), 1);
  const auto share = static_cast<unsigned>(blocks_for(blocks_for(depth, wanted), slab)) * slab;
  const unsigned shares = blocks_for(depth, share);
  LargeProduct p{{a.as<float>(), static_cast<unsigned>(a.row_stride)},
                 {b.as<float>(), static_cast<unsigned>(b.row_stride)},
                 static_cast<unsigned>(rows),
                 static_cast<unsigned>(columns),
                 static_cast<unsigned>(depth),
                 share,
                 static_cast<float>(alpha),
                 static_cast<float>(beta),
                 c.as<float>(),
                 static_cast<unsigned>(c.row_stride),
                 nullptr};
  if (shares > 1) p.partials = backend_.scratch(static_cast<std::size_t>(rows * columns) * shares);
  if (transpose_a) {
    launch_large_product<false, false>(backend_.stream(), p, shares);
  } else if (transpose_b) {
    launch_large_product<true, true>(backend_.stream(), p, shares);
  } else {
    launch_large_product<true, false>(backend_.stream(), p, shares);
  }
  if (shares > 1) {
    launch(add_partials_kernel, blocks_for(rows * columns / 4, threads), threads, 0, backend_.stream(), p, shares);
  }
  backend_.launched("large product");
  return true;
}

}  // namespace afterglow
