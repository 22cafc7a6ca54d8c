// Products of a tall matrix in which one extent n is a few numbers, as of gates of heads or low ranks: y[t, n] = sum
// over k of x[t, k] w(n, k), y[t, k] = sum over n of x[t, n] w(n, k), and the gradient, sum over t of x[t, n] y[t, k].
// They are memory-bound: each kernel reads the tall matrices once, in float32 arithmetic in every precision, and two
// projections of one input share that read. Grid: (blocks that share the rows t, tiles of 512 columns k).
#include <algorithm>

#include "gpu/ops/product/product.cuh"
#include "gpu/tile/columns.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr unsigned max_thin = 16;     // of the thin extent
constexpr unsigned min_rows = 4096;   // of the tall extent
constexpr unsigned max_depth = 1024;  // of a sum over the other extent, whose matrix lies in shared memory
constexpr unsigned together = 4;      // rows of a warp or thread at a time
constexpr unsigned column_threads = 128;
constexpr unsigned max_sum = 1 << 16, max_partials = 1 << 22;  // numbers of a gradient, and of its partial sums

/// The small matrix w(n, k), or two of them from n = `first` on; n counts the thin extent.
struct Small {
  const float *data, *second;
  unsigned first;
  unsigned of_n, of_k;  // distance of neighbours
  __device__ const float* at(unsigned n, unsigned k) const {
    return (n < first ? data + n * of_n : second + (n - first) * of_n) + k * of_k;
  }
  __device__ float4 four(unsigned n, unsigned k) const {
    const float* from = at(n, k);
    if (of_k == 1 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0) return *reinterpret_cast<const float4*>(from);
    return make_float4(from[0], from[of_k], from[2 * of_k], from[3 * of_k]);
  }
};

/// Tall thin matrices with columns n: one, or two side by side.
struct Narrow {
  Rows<float> rows, second;
  unsigned first, columns;  // of the first, of both
};
struct NarrowSinks {
  Sink to, second;
  unsigned first, columns;
  __device__ void put(std::size_t row, unsigned n, float value) const {
    if (n < first) {
      to.put(row, n, value);
    } else {
      second.put(row, n - first, value);
    }
  }
};

// y[t, n] = sum over k of x[t, k] w(n, k), assigned or added. A warp computes `together` rows at a time.
template <unsigned thin>
__global__ void __launch_bounds__(threads, thin <= max_thin / 2 ? 4 : 2)
    thin_outputs_kernel(Rows<float> x, Small w, const __grid_constant__ NarrowSinks y, unsigned rows) {
  wait_for_previous_kernel();
  extern __shared__ float4 weights[];  // [thin][columns / 4]
  const unsigned fours = x.columns / 4, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned step = gridDim.x * threads / 32 * together;
  Piece<4> values[together], next[together];
  const auto load = [&](unsigned row, unsigned four) {
    unrolled<together>(
        [&](unsigned r) { next[r] = Piece<4>::of(x, row + r, 4 * four, row + r < rows && four < fours); });
  };
  unsigned row = (blockIdx.x * threads / 32 + warp) * together;
  load(row, lane);
  for (unsigned i = threadIdx.x; i < thin * fours; i += threads) {
    const unsigned n = i / fours;
    weights[i] = n < y.columns ? w.four(n, i % fours * 4) : float4{};
  }
  __syncthreads();
  constexpr unsigned in_turn = 32 / together;  // outputs whose sums a warp finishes at once
  for (; row < rows; row += step) {
    float sums[thin][together] = {};
    for (unsigned four = lane; four < fours; four += 32) {
      unrolled<together>([&](unsigned r) { values[r] = next[r]; });
      load(row, four + 32);
      unrolled<thin>([&](unsigned n) {
        const float4 weight = weights[n * fours + four];
        unrolled<together>([&](unsigned r) {
          const auto& v = values[r].v;
          sums[n][r] += (v[0] * weight.x + v[1] * weight.y) + (v[2] * weight.z + v[3] * weight.w);
        });
      });
    }
    load(row + step, lane);
#pragma unroll
    for (unsigned first = 0; first < thin; first += in_turn) {
      float numbers[32];
      unrolled<32>([&](unsigned i) { numbers[i] = sums[first + i % in_turn][i / in_turn]; });
      share_sums<16, 1>(numbers);  // lane i ends with the sum of number i
      const unsigned n = first + lane % in_turn, own = row + lane / in_turn;
      if (n < y.columns && own < rows) y.put(std::size_t{own}, n, numbers[0]);
    }
  }
}

__device__ void add_product(Piece<4>& sum, float factor, const Piece<4>& piece) {
  unrolled<4>([&](unsigned e) { sum.v[e] += factor * piece.v[e]; });
}

/// The small matrix's numbers for a thread's four columns.
template <unsigned thin>
__device__ void load_columns(const Small& w, unsigned count, unsigned column, Piece<4> (&weights)[thin]) {
  const float* own = w.data + column * w.of_k;
  if (w.of_n == 1 && w.first >= count && count == thin && w.of_k % 4 == 0 &&
      reinterpret_cast<std::uintptr_t>(own) % 16 == 0) {
    unrolled<4>([&](unsigned e) {
      const auto column_numbers = Piece<thin>::of(own + e * w.of_k, true);
      unrolled<thin>([&](unsigned n) { weights[n].v[e] = column_numbers.v[n]; });
    });
    return;
  }
  unrolled<thin>([&](unsigned n) {
    const float4 four = n < count ? w.four(n, column) : float4{};
    weights[n] = {{four.x, four.y, four.z, four.w}};
  });
}

/// Rows of thin matrices in shared memory, where the whole block reads them: sets of `count` rows padded with zeros;
/// the block fetches the next set while it reads one.
template <unsigned thin, unsigned count>
class NarrowRows {
 public:
  using Sets = float[2][count * thin];
  __device__ NarrowRows(const Narrow& from, unsigned rows, Sets& sets) : from_(from), rows_(rows), sets_(sets) {}
  /// Loads rows from `first` on into registers.
  __device__ void fetch(unsigned first) {
    const unsigned row = first + threadIdx.x / thin, n = threadIdx.x % thin;
    next_ = 0;
    if (threadIdx.x >= count * thin || row >= rows_ || n >= from_.columns) return;
    next_ = n < from_.first ? from_.rows.at(row, n) : from_.second.at(row, n - from_.first);
  }
  /// Publishes the fetched set; the whole block calls.
  __device__ void take() {
    buffer_ ^= 1;
    if (threadIdx.x < count * thin) sets_[buffer_][threadIdx.x] = next_;
    __syncthreads();
  }
  __device__ Piece<thin> row(unsigned r) const { return Piece<thin>::of(sets_[buffer_] + r * thin, true); }

 private:
  const Narrow& from_;
  const unsigned rows_;
  Sets& sets_;
  unsigned buffer_ = 0;
  float next_ = 0;
};

// y[t, k] = sum over n of x[t, n] w(n, k); a thread computes four columns.
template <unsigned thin>
__global__ void __launch_bounds__(column_threads)
    thin_depth_kernel(const __grid_constant__ Narrow x, Small w, Sink y, unsigned rows) {
  wait_for_previous_kernel();
  __shared__ __align__(16) typename NarrowRows<thin, together>::Sets sets;
  NarrowRows<thin, together> factors(x, rows, sets);
  const unsigned column = (blockIdx.y * column_threads + threadIdx.x) * 4;
  const bool inside = column < y.rows.columns;
  Piece<4> weights[thin] = {};
  factors.fetch(blockIdx.x * together);
  if (inside) load_columns(w, x.columns, column, weights);
  for (unsigned row = blockIdx.x * together; row < rows; row += gridDim.x * together) {
    factors.take();
    factors.fetch(row + gridDim.x * together);
    Piece<4> sums[together] = {};
    unrolled<together>([&](unsigned r) {
      const Piece<thin> own = factors.row(r);
      unrolled<thin>([&](unsigned n) { add_product(sums[r], own.v[n], weights[n]); });
    });
    unrolled<together>([&](unsigned r) {
      if (inside && row + r < rows) sums[r].put(y, row + r, column);
    });
  }
}

// partials [blocks, n, k] (or [blocks, k, n] with `transposes`) = sum over the block's rows t of narrow[t, n] wide[t,
// k]. Two groups of threads alternate over the rows, so that enough loads are in flight.
template <unsigned thin>
__global__ void __launch_bounds__(2 * column_threads)
    thin_gradient_kernel(const __grid_constant__ Narrow narrow, Rows<float> wide, unsigned rows, bool transposes,
                         float* partials) {
  wait_for_previous_kernel();
  constexpr unsigned width = 4 * column_threads, stride = width + 4;  // spreads the columns of sums over the banks
  __shared__ __align__(16) float sums_of_block[thin * stride];
  __shared__ __align__(16) typename NarrowRows<thin, 2 * together>::Sets sets;
  NarrowRows<thin, 2 * together> factors(narrow, rows, sets);
  const unsigned group = threadIdx.x / column_threads, own = threadIdx.x % column_threads * 4, count = narrow.columns;
  const unsigned first = blockIdx.y * width, column = first + own, step = 2 * gridDim.x * together;
  Piece<4> sums[thin] = {}, values[together];
  const auto load = [&](unsigned row) {
    unrolled<together>([&](unsigned r) {
      values[r] = Piece<4>::of(wide, row + group * together + r, column,
                               column < wide.columns && row + group * together + r < rows);
    });
  };
  factors.fetch(2 * blockIdx.x * together);
  for (unsigned row = 2 * blockIdx.x * together; row < rows; row += step) {
    load(row);
    factors.take();
    factors.fetch(row + step);
    unrolled<together>([&](unsigned r) {
      const Piece<thin> own_factors = factors.row(group * together + r);
      unrolled<thin>([&](unsigned n) { add_product(sums[n], own_factors.v[n], values[r]); });
    });
  }
  unrolled<2>([&](unsigned round) {
    if (group == round) {
      unrolled<thin>([&](unsigned n) {
        float* const place = sums_of_block + n * stride + own;
        if (round > 0) add_product(sums[n], 1.0f, Piece<4>::of(place, true));
        sums[n].store(place);
      });
    }
    __syncthreads();
  });
  float* const to = partials + std::size_t{blockIdx.x} * count * wide.columns;
  const unsigned columns = min(width, wide.columns - first);
  for (unsigned i = threadIdx.x; i < count * columns; i += 2 * column_threads) {
    const unsigned n = transposes ? i % count : i / columns, k = transposes ? i / count : i % columns;
    to[transposes ? (first + k) * count + n : n * wide.columns + first + k] = sums_of_block[n * stride + k];
  }
}

/// Calls body with a capacity for `count` numbers of the thin extent, as a compile-time constant.
template <class Body>
void with_thin(std::int64_t count, const Body& body) {
  with_capacity<max_thin / 2, max_thin>(count, body);
}

bool is_tall(const Tensor& matrix) { return matrix.rows() >= min_rows && matrix.dtype == DType::f32; }
bool is_thin(std::int64_t extent) { return extent > 0 && extent <= max_thin; }
bool in_fours(const Tensor& matrix) { return matrix.columns() % 4 == 0 && in_pieces<4>(rows_of(matrix)); }

Small small_matrix(std::span<const Tensor> parts, bool thin_rows) {
  const auto stride = unsigned(parts[0].row_stride);
  return {parts[0].as<float>(), parts.back().as<float>(), unsigned(thin_rows ? parts[0].rows() : parts[0].columns()),
          thin_rows ? stride : 1, thin_rows ? 1 : stride};
}

Narrow narrow_matrix(std::span<const Tensor> parts) {
  const auto first = unsigned(parts[0].columns());
  const unsigned second = parts.size() > 1 ? unsigned(parts[1].columns()) : 0;
  return {rows_of(parts[0]), rows_of(parts.back()), first, first + second};
}

bool are_float(std::span<const Tensor> tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const Tensor& t) { return t.dtype == DType::f32; });
}

/// Whether the weights are two matrices that form one.
bool are_pair(std::span<const Tensor> weights) {
  return weights.size() == 2 && weights[0].row_stride == weights[1].row_stride;
}

/// x w, where w has few columns.
void multiply_outputs(const CudaBackend& backend, const Tensor& x, const Small& w, const NarrowSinks& to) {
  const auto rows = unsigned(x.rows());
  with_thin(to.columns, [&](auto thin) {
    const int bytes = int(thin * sizeof(float) * unsigned(x.columns()));
    launch("thin product", thin_outputs_kernel<thin>,
           at_most(blocks_for(rows, threads / 32 * together), 4 * multiprocessors()), threads, std::size_t(bytes),
           backend.stream(), rows_of(x), w, to, rows);
  });
  backend.launched("thin product");
}
bool can_multiply_outputs(const Tensor& x, std::int64_t outputs) {
  return is_tall(x) && is_thin(outputs) && x.columns() <= max_depth && in_fours(x);
}

/// x w, where w has few rows.
void multiply_depth(const CudaBackend& backend, std::span<const Tensor> x, const Small& w, const Grad& to) {
  const auto rows = unsigned(x[0].rows());
  const Narrow narrow = narrow_matrix(x);
  with_thin(narrow.columns, [&](auto thin) {
    const unsigned max_blocks = (thin() <= max_thin / 2 ? 8 : 4) * multiprocessors();  // about as many as fit
    const dim3 grid(at_most(blocks_for(rows, together), max_blocks),
                    blocks_for(to.tensor.columns(), 4 * column_threads));
    launch(backend, "thin product", thin_depth_kernel<thin>, grid, column_threads, narrow, w, sink_of(to), rows);
  });
}
bool can_multiply_depth(const Tensor& x, std::int64_t depth, const Grad& to) {
  return is_tall(x) && is_thin(depth) && to.tensor.dtype == DType::f32 && in_fours(to.tensor);
}

/// narrow^T wide, or its transpose: to[0] receives the rows of the first narrow matrix.
void sum_gradients(const CudaBackend& backend, std::span<const Tensor> parts, const Tensor& wide,
                   std::span<const Grad> to, bool transposed) {
  const Narrow narrow = narrow_matrix(parts);
  const auto rows = unsigned(wide.rows()), columns = unsigned(wide.columns());
  const unsigned count = narrow.columns, numbers = count * columns;
  const unsigned blocks =
      at_most(at_most(blocks_for(rows, 2 * together), 2 * multiprocessors()), max_partials / numbers);
  float* partials = backend.scratch(std::size_t{blocks} * numbers);
  with_thin(count, [&](auto thin) {
    launch(thin_gradient_kernel<thin>, dim3(blocks, blocks_for(columns, 4 * column_threads)), 2 * column_threads, 0,
           backend.stream(), narrow, rows_of(wide), rows, transposed, partials);
  });
  ColumnSums sums;
  for (std::size_t i = 0; i < to.size(); ++i)
    sums.add(to[i].tensor.elements(), to[i], i > 0 ? narrow.first * columns : 0);
  add_partials(backend, "thin product", partials, blocks, numbers, sums);
}
bool can_sum_gradients(std::int64_t count, const Tensor& wide) {
  return is_tall(wide) && is_thin(count) && count * wide.columns() <= max_sum && in_fours(wide);
}

}  // namespace

bool ProductPlanner::thin_projections(const Tensor& x, std::span<const Tensor> weights,
                                      std::span<const Tensor> results) {
  if (weights.size() == 1) return thin_product(false, true, x, weights[0], {results[0], false});
  const std::int64_t outputs = rows_of_all(weights);
  if (!are_pair(weights) || !are_float(weights) || !are_float(results) || !can_multiply_outputs(x, outputs))
    return false;
  multiply_outputs(
      backend_, x, small_matrix(weights, true),
      {sink_of({results[0], false}), sink_of({results.back(), false}), unsigned(weights[0].rows()), unsigned(outputs)});
  return true;
}

bool ProductPlanner::thin_input_gradient(std::span<const Tensor> dresults, std::span<const Tensor> weights,
                                         const Grad& dx) {
  if (weights.size() == 1) return thin_product(false, false, dresults[0], weights[0], dx);
  if (!are_pair(weights) || !are_float(weights) || !are_float(dresults) ||
      !can_multiply_depth(dresults[0], rows_of_all(weights), dx))
    return false;
  multiply_depth(backend_, dresults, small_matrix(weights, true), dx);
  return true;
}

bool ProductPlanner::thin_weight_gradients(std::span<const Tensor> dresults, const Tensor& x,
                                           std::span<const Grad> dweights) {
  const bool are_all = std::all_of(dweights.begin(), dweights.end(),
                                   [](const Grad& dw) { return dw.wanted() && dw.tensor.dtype == DType::f32; });
  if (dresults.size() == 1) return dweights[0].wanted() && thin_product(true, false, dresults[0], x, dweights[0]);
  if (!are_all || dresults.size() != 2 || !are_apart(dweights) || !are_float(dresults) ||
      !can_sum_gradients(dresults[0].columns() + dresults[1].columns(), x))
    return false;
  launch_kept_gradients();  // a collected gradient may have the same destination
  sum_gradients(backend_, dresults, x, dweights, false);
  return true;
}

bool ProductPlanner::thin_product(bool transpose_a, bool transpose_b, const Tensor& a, const Tensor& b, const Grad& c) {
  if ((transpose_a && transpose_b) || !are_float({&b, 1}) || !are_float({&c.tensor, 1})) return false;
  if (!transpose_a && can_multiply_outputs(a, c.tensor.columns())) {
    const auto outputs = unsigned(c.tensor.columns());
    multiply_outputs(backend_, a, small_matrix({&b, 1}, transpose_b), {sink_of(c), {}, outputs, outputs});
    return true;
  }
  if (!transpose_a && can_multiply_depth(a, a.columns(), c)) {
    multiply_depth(backend_, {&a, 1}, small_matrix({&b, 1}, !transpose_b), c);
    return true;
  }
  if (!transpose_a || !is_tall(a)) return false;
  const bool by_rows = is_thin(c.tensor.rows());
  if (!can_sum_gradients(by_rows ? c.tensor.rows() : c.tensor.columns(), by_rows ? b : a)) return false;
  launch_kept_gradients();  // a collected gradient may have the same destination
  sum_gradients(backend_, {by_rows ? &a : &b, 1}, by_rows ? b : a, {&c, 1}, !by_rows);
  return true;
}

}  // namespace afterglow
