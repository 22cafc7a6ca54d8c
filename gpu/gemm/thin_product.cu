// Products of a tall matrix in which one extent is a few numbers: projections to gates of heads, through low ranks, and
// their gradients. Bound by memory: each reads the tall matrices once, in float32 arithmetic whatever the precision.
#include <type_traits>

#include "gpu/cuda_backend.h"
#include "gpu/device/columns.cuh"
#include "gpu/device/device.cuh"
#include "gpu/device/lanes.cuh"
#include "gpu/device/launch.cuh"
#include "gpu/device/pieces.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr unsigned widest = 16;         // of the thin extent
constexpr unsigned fewest_rows = 4096;  // of the tall one
constexpr unsigned deepest = 1024;      // of a sum over the other one, whose matrix lies in shared memory
constexpr unsigned together = 4;        // rows of a warp or thread at a time
constexpr unsigned column_threads = 128, blocks_of_sum = 264;
constexpr unsigned largest_sum = 1 << 16, most_partials = 1 << 22;  // numbers of a gradient, and of its partial sums

/// The small matrix, w(n, k): n counts the thin extent.
struct Small {
  const float* data;
  unsigned of_n, of_k;  // how far apart neighbours lie
  __device__ float at(unsigned n, unsigned k) const { return data[n * of_n + k * of_k]; }
  /// w(n, k) to w(n, k + 3).
  __device__ float4 four(unsigned n, unsigned k) const {
    const float* from = data + n * of_n + k;
    if (of_k == 1 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0) return *reinterpret_cast<const float4*>(from);
    return make_float4(at(n, k), at(n, k + 1), at(n, k + 2), at(n, k + 3));
  }
};

// y[t, n] = sum over k of x[t, k] w(n, k), and what was there before where it is added to.
template <unsigned thin>
__global__ void __launch_bounds__(threads, thin <= widest / 2 ? 4 : 2)
    thin_outputs_kernel(Rows<float> x, Small w, Sink y, unsigned rows, unsigned outputs) {
  await_previous();
  extern __shared__ float4 weights[];  // [thin][columns / 4]
  const unsigned fours = x.columns / 4, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned step = gridDim.x * threads / 32 * together;
  Piece<4> values[together], next[together];
  const auto load = [&](unsigned row, unsigned four) {
#pragma unroll
    for (unsigned r = 0; r < together; ++r)
      next[r] = Piece<4>::of(x, row + r, 4 * four, row + r < rows && four < fours);
  };
  unsigned row = (blockIdx.x * threads / 32 + warp) * together;
  load(row, lane);
  for (unsigned i = threadIdx.x; i < thin * fours; i += threads) {
    const unsigned n = i / fours;
    weights[i] = n < outputs ? w.four(n, i % fours * 4) : float4{};
  }
  __syncthreads();
  constexpr unsigned in_turn = 32 / together;  // outputs whose sums a warp finishes at once
  for (; row < rows; row += step) {
    float sums[thin][together] = {};
    for (unsigned four = lane; four < fours; four += 32) {
#pragma unroll
      for (unsigned r = 0; r < together; ++r) values[r] = next[r];
      load(row, four + 32);
#pragma unroll
      for (unsigned n = 0; n < thin; ++n) {
        const float4 weight = weights[n * fours + four];
#pragma unroll
        for (unsigned r = 0; r < together; ++r) {
          const auto& v = values[r].v;
          sums[n][r] += (v[0] * weight.x + v[1] * weight.y) + (v[2] * weight.z + v[3] * weight.w);
        }
      }
    }
    load(row + step, lane);
#pragma unroll
    for (unsigned first = 0; first < thin; first += in_turn) {
      float numbers[32];
#pragma unroll
      for (unsigned i = 0; i < 32; ++i) numbers[i] = sums[first + i % in_turn][i / in_turn];
      share_sums<16, 1>(numbers);  // lane i ends with the sum of number i
      const unsigned n = first + lane % in_turn, own = row + lane / in_turn;
      if (n < outputs && own < rows) y.put(std::size_t{own}, n, numbers[0]);
    }
  }
}

__device__ void add_product(Piece<4>& sum, float factor, const Piece<4>& piece) {
#pragma unroll
  for (unsigned e = 0; e < 4; ++e) sum.v[e] += factor * piece.v[e];
}

/// Of four columns of a thread, the small matrix's numbers.
template <unsigned thin>
__device__ void load_columns(const Small& w, unsigned count, unsigned column, Piece<4> (&weights)[thin]) {
  const float* own = w.data + column * w.of_k;
  if (w.of_n == 1 && count == thin && w.of_k % 4 == 0 && reinterpret_cast<std::uintptr_t>(own) % 16 == 0) {
#pragma unroll
    for (unsigned e = 0; e < 4; ++e) {
      const auto column_numbers = Piece<thin>::of(own + e * w.of_k, true);
#pragma unroll
      for (unsigned n = 0; n < thin; ++n) weights[n].v[e] = column_numbers.v[n];
    }
    return;
  }
#pragma unroll
  for (unsigned n = 0; n < thin; ++n) {
    const float4 four = n < count ? w.four(n, column) : float4{};
    weights[n] = {{four.x, four.y, four.z, four.w}};
  }
}

/// The numbers of a row of the thin matrix, in fours where they lie so (`fours`); zeros behind them.
template <unsigned thin>
__device__ Piece<thin> thin_row(const Rows<float>& x, unsigned row, unsigned count, bool fours, bool inside) {
  if (fours && count == thin) return Piece<thin>::of(x, row, 0, inside);
  Piece<thin> numbers;
#pragma unroll
  for (unsigned n = 0; n < thin; ++n) numbers.v[n] = inside && n < count ? x.at(row, n) : 0.0f;
  return numbers;
}

// y[t, k] = sum over n of x[t, n] w(n, k); a thread takes four columns.
template <unsigned thin>
__global__ void __launch_bounds__(column_threads)
    thin_depth_kernel(Rows<float> x, bool fours, Small w, Sink y, unsigned rows, unsigned depth) {
  await_previous();
  const unsigned column = (blockIdx.y * column_threads + threadIdx.x) * 4;
  if (column >= y.rows.columns) return;
  Piece<4> weights[thin];
  load_columns(w, depth, column, weights);
  for (unsigned row = blockIdx.x * together; row < rows; row += gridDim.x * together) {
    Piece<4> sums[together] = {};
#pragma unroll
    for (unsigned r = 0; r < together; ++r) {
      const auto factors = thin_row<thin>(x, row + r, depth, fours, row + r < rows);
#pragma unroll
      for (unsigned n = 0; n < thin; ++n) add_product(sums[r], factors.v[n], weights[n]);
    }
#pragma unroll
    for (unsigned r = 0; r < together; ++r) {
      if (row + r < rows) sums[r].put(y, row + r, column);
    }
  }
}

// Of a block's rows t, the sums of narrow[t, n] wide[t, k]: partials [blocks, n, k] or, turned, [blocks, k, n]. Two
// groups of threads take rows in turn, so that enough loads are under way.
template <unsigned thin>
__global__ void __launch_bounds__(2 * column_threads)
    thin_gradient_kernel(Rows<float> narrow, bool fours, Rows<float> wide, unsigned rows, unsigned count, bool turns,
                         float* partials) {
  await_previous();
  constexpr unsigned width = 4 * column_threads, stride = width + 4;  // so that columns of sums lie in several banks
  __shared__ __align__(16) float sums_of_block[thin * stride];
  const unsigned group = threadIdx.x / column_threads, own = threadIdx.x % column_threads * 4;
  const unsigned first = blockIdx.y * width, column = first + own;
  const bool inside = column < wide.columns;
  Piece<4> sums[thin] = {};
  for (unsigned row = (2 * blockIdx.x + group) * together; row < rows && inside; row += 2 * gridDim.x * together) {
    Piece<4> values[together];
#pragma unroll
    for (unsigned r = 0; r < together; ++r) values[r] = Piece<4>::of(wide, row + r, column, row + r < rows);
#pragma unroll
    for (unsigned r = 0; r < together; ++r) {
      const auto factors = thin_row<thin>(narrow, row + r, count, fours, row + r < rows);
#pragma unroll
      for (unsigned n = 0; n < thin; ++n) add_product(sums[n], factors.v[n], values[r]);
    }
  }
#pragma unroll
  for (unsigned turn = 0; turn < 2; ++turn) {
    if (group == turn) {
#pragma unroll
      for (unsigned n = 0; n < thin; ++n) {
        float* const place = sums_of_block + n * stride + own;
        if (turn > 0) add_product(sums[n], 1.0f, Piece<4>::of(place, true));
        sums[n].store(place);
      }
    }
    __syncthreads();
  }
  float* const to = partials + std::size_t{blockIdx.x} * count * wide.columns;
  const unsigned columns = min(width, wide.columns - first);
  for (unsigned i = threadIdx.x; i < count * columns; i += 2 * column_threads) {
    const unsigned n = turns ? i % count : i / columns, k = turns ? i / count : i % columns;
    to[turns ? (first + k) * count + n : n * wide.columns + first + k] = sums_of_block[n * stride + k];
  }
}

/// Calls body with room for so many numbers of the thin extent, as a compile-time constant.
template <class Body>
void with_thin(std::int64_t count, const Body& body) {
  if (count <= widest / 2) return body(std::integral_constant<unsigned, widest / 2>());
  body(std::integral_constant<unsigned, widest>());
}

bool is_tall(const Tensor& matrix) { return matrix.rows() >= fewest_rows && matrix.dtype == DType::f32; }
bool is_thin(std::int64_t extent) { return extent > 0 && extent <= widest; }
/// Whether its rows can be read in fours.
bool in_fours(const Tensor& matrix) { return matrix.columns() % 4 == 0 && in_pieces<4>(rows_of(matrix)); }

Small small_matrix(const Tensor& matrix, bool thin_rows) {
  const auto stride = static_cast<unsigned>(matrix.row_stride);
  return {matrix.as<float>(), thin_rows ? stride : 1, thin_rows ? 1 : stride};
}

}  // namespace

bool ProductPlanner::thin_product(bool transpose_a, bool transpose_b, const Tensor& a, const Tensor& b, const Grad& c) {
  if (transpose_a && transpose_b) return false;
  const Tensor& to = c.tensor;
  const cudaStream_t stream = backend_.stream();
  const auto rows = static_cast<unsigned>(a.rows());
  if (!is_tall(a) || b.dtype != DType::f32 || to.dtype != DType::f32) return false;
  if (!transpose_a && is_thin(to.columns()) && a.columns() <= deepest && in_fours(a)) {
    with_thin(to.columns(), [&](auto thin) {
      const auto kernel = thin_outputs_kernel<thin>;
      const int bytes = static_cast<int>(thin * sizeof(float) * static_cast<unsigned>(a.columns()));
      allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes, "thin product");
      launch(kernel, at_most(blocks_for(rows, threads / 32 * together), 2 * blocks_of_sum), threads,
             static_cast<std::size_t>(bytes), stream, rows_of(a), small_matrix(b, transpose_b), sink_of(c), rows,
             static_cast<unsigned>(to.columns()));
    });
  } else if (!transpose_a && is_thin(a.columns()) && in_fours(to)) {
    with_thin(a.columns(), [&](auto thin) {
      const unsigned most = (thin() <= widest / 2 ? 4 : 2) * blocks_of_sum;  // as many as fit, or nearly
      const dim3 grid(at_most(blocks_for(rows, together), most), blocks_for(to.columns(), 4 * column_threads));
      launch(thin_depth_kernel<thin>, grid, column_threads, 0, stream, rows_of(a), in_fours(a),
             small_matrix(b, !transpose_b), sink_of(c), rows, static_cast<unsigned>(a.columns()));
    });
  } else if (transpose_a && to.elements() <= largest_sum &&
             (is_thin(to.rows()) ? in_fours(b) : is_thin(to.columns()) && in_fours(a))) {
    const bool thin_rows = is_thin(to.rows());
    const Tensor &narrow = thin_rows ? a : b, &wide = thin_rows ? b : a;
    const auto count = static_cast<unsigned>(narrow.columns()), columns = static_cast<unsigned>(wide.columns());
    const unsigned blocks =
        at_most(at_most(blocks_for(rows, 2 * together), blocks_of_sum), most_partials / (count * columns));
    launch_kept_gradients();  // one of them may go where this one goes
    float* partials = backend_.scratch(std::size_t{blocks} * count * columns);
    with_thin(count, [&](auto thin) {
      launch(thin_gradient_kernel<thin>, dim3(blocks, blocks_for(columns, 4 * column_threads)), 2 * column_threads, 0,
             stream, rows_of(narrow), in_fours(narrow), rows_of(wide), rows, count, !thin_rows, partials);
    });
    column_sums(stream, blocks, std::int64_t{count} * columns, nullptr, nullptr, c,
                [=] __device__(unsigned block, unsigned place) {
                  return partials[std::size_t{block} * count * columns + place];
                });
  } else {
    return false;
  }
  backend_.launched("thin product");
  return true;
}

}  // namespace afterglow
