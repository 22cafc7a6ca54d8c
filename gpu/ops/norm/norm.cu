// Norms over the last axis of [rows, columns]: RMS, y = u w / sqrt(mean(u^2) + eps) of u = x, x + z or x silu(z)
// (gated, Mamba-2), and LayerNorm. Memory-bound. Grid: a warp a row, or half of one. dw = sum over rows of dy u / rms:
// with few rows in a launch of its own on the side stream, with many in the kernel of the other gradients, so that
// nothing is read twice.
#include <algorithm>
#include <optional>
#include <type_traits>

#include "gpu/ops/product/rounded.cuh"
#include "gpu/tile/columns.cuh"
#include "gpu/tile/map.cuh"

namespace afterglow {

using namespace device;

namespace {

/// X is the stored type of x and z, Y that of y, and of their gradients.
template <class X, class Y>
struct NormInputs {
  Rows<X> x, z;
  Rows<Y> dy;
  Rows<float> sum;   // receives x + z
  Rows<float> base;  // added to dx, or null
  const float* weight;
  float* inverse;
  unsigned rows, columns;
};

/// Destinations of the gradients of x and z, and of a contiguous bfloat16 copy of that of x.
template <class X>
struct NormSinks {
  SinkOf<X> x, z;
  Bf16* narrow = nullptr;
};

/// T is the stored type of x and z.
template <Normed kind, class T>
__device__ float normalised(float x, float z) {
  return kind == Normed::plain ? x : kind == Normed::sum ? x + z : x * silu<T>(z);
}

// `lanes` lanes take a row. A lane holds up to `held` vectors, so that a row is read once with all loads in flight;
// only longer rows are read again.
template <Normed kind, unsigned width, unsigned held, unsigned lanes, class X, class Y>
__global__ void __launch_bounds__(threads)
    norm_kernel(NormInputs<X, Y> in, float eps, Rows<Y> y, RoundedResult rounded) {
  wait_for_previous_kernel();
  using P = Piece<width>;
  const unsigned row = blockIdx.x * (threads / lanes) + threadIdx.x / lanes, lane = threadIdx.x % lanes;
  if (row >= in.rows) return;
  const auto normalise = [&](P& value, const P& other) {
    float squares = 0;
    unrolled<width>([&](unsigned e) {
      value.v[e] = normalised<kind, X>(value.v[e], other.v[e]);
      squares += value.v[e] * value.v[e];
    });
    return squares;
  };
  P values[held], others[held], weights[held];
  unrolled<held>([&](unsigned k) {
    const unsigned column = (lane + lanes * k) * width;
    const bool inside = column < in.columns;
    values[k] = P::of(in.x, row, column, inside);
    others[k] = P::of(in.z, row, column, inside && kind != Normed::plain);
    weights[k] = P::of(in.weight + column, inside);
  });
  const auto again = [&](unsigned column, P& value) {
    value = P::of(in.x, row, column, true);
    return normalise(value, P::of(in.z, row, column, kind != Normed::plain));
  };
  float squares = 0;
  unrolled<held>([&](unsigned k) {
    const unsigned column = (lane + lanes * k) * width;
    squares += normalise(values[k], others[k]);
    if (kind == Normed::sum && column < in.columns) values[k].store(&in.sum.at(row, column));
  });
  for (unsigned column = (lane + lanes * held) * width; column < in.columns; column += lanes * width) {
    P value;
    squares += again(column, value);
    if (kind == Normed::sum) value.store(&in.sum.at(row, column));
  }
  const float inverse = 1.0f / sqrtf(sum_of_lanes<lanes>(squares) / float(in.columns) + eps);
  if (lane == 0) in.inverse[row] = inverse;
  // No result exceeds the largest weight times the square root of the number of columns.
  float factor = 1;
  if (rounded.wanted()) {
    float largest = 0;
    const auto look_at = [&](const P& weight) {
      unrolled<width>([&](unsigned e) { largest = fmaxf(largest, fabsf(weight.v[e])); });
    };
    unrolled<held>([&](unsigned k) { look_at(weights[k]); });
    for (unsigned column = (lane + lanes * held) * width; column < in.columns; column += lanes * width)
      look_at(P::of(in.weight + column, true));
    factor = rounded.factor(max_of_lanes<lanes>(largest) * sqrtf(float(in.columns)), row == 0 && lane == 0);
  }
  const auto write = [&](unsigned column, P value, const P& weight) {
    unrolled<width>([&](unsigned e) { value.v[e] *= inverse * weight.v[e]; });
    value.store(&y.at(row, column));
    if (rounded.wanted()) rounded.put(row * std::size_t{in.columns} + column, value, factor);
  };
  unrolled<held>([&](unsigned k) {
    const unsigned column = (lane + lanes * k) * width;
    if (column < in.columns) write(column, values[k], weights[k]);
  });
  for (unsigned column = (lane + lanes * held) * width; column < in.columns; column += lanes * width) {
    P value;
    again(column, value);
    write(column, value, P::of(in.weight + column, true));
  }
}

/// The gradient's operands for neighbouring columns, kept as stored.
template <bool gated, unsigned width, class X, class Y>
struct NormColumns {
  using P = Piece<width>;
  Stored<X, width> stored_x, stored_z;
  Stored<Y, width> stored_dy;
  Stored<float, width> stored_base;

  __device__ static NormColumns of(const NormInputs<X, Y>& in, unsigned row, unsigned column, bool inside) {
    return {Stored<X, width>::of(in.x, row, column, inside), Stored<X, width>::of(in.z, row, column, inside && gated),
            Stored<Y, width>::of(in.dy, row, column, inside),
            Stored<float, width>::of(in.base, row, column, inside && !gated && in.base.data != nullptr)};
  }
  /// The sum of dy weight u; adds the row's part of the weight's gradient to `to_weight`.
  __device__ float weigh(const P& weight, float inverse, P& to_weight) const {
    const P x = P::of(stored_x), z = P::of(stored_z), dy = P::of(stored_dy);
    float sum = 0;
    unrolled<width>([&](unsigned e) {
      const float product = dy.v[e] * (gated ? x.v[e] * silu<X>(z.v[e]) : x.v[e]);
      sum += weight.v[e] * product;
      to_weight.v[e] += inverse * product;
    });
    return sum;
  }
  __device__ void put(unsigned row, unsigned column, unsigned width_of_row, const P& weight, float inverse, float mean,
                      const NormSinks<X>& to) const {
    const P x = P::of(stored_x), z = P::of(stored_z), dy = P::of(stored_dy), base = P::of(stored_base);
    P to_x, to_z;
    unrolled<width>([&](unsigned e) {
      const Silu gate = gated ? silu_with_slope<X>(z.v[e]) : Silu{1, 0};
      const float du = inverse * (__fmul_rn(dy.v[e], weight.v[e]) - x.v[e] * gate.value * mean);
      to_x.v[e] = gated ? du * gate.value : base.v[e] + du;
      if (gated) to_z.v[e] = du * x.v[e] * gate.slope;
    });
    if (to.x.wanted()) to_x.put(to.x, row, column);
    if (gated && to.z.wanted()) to_z.put(to.z, row, column);
    if (!gated && to.narrow != nullptr) to_x.store(to.narrow + row * std::size_t{width_of_row} + column);
  }
  /// As if read once more (`Stored::again`): kept floats would take twice the registers.
  __device__ NormColumns again() const {
    if constexpr (std::is_same_v<X, float>) return *this;
    return {stored_x.again(), stored_z.again(), stored_dy.again(), stored_base};
  }
};

// y = u inverse w: du = inverse (w dy - u inverse^2 mean(w dy u)), dw = sum over rows of dy u inverse.
template <bool gated, unsigned width, unsigned held, unsigned lanes, class X, class Y>
__global__ void __launch_bounds__(threads) norm_backward_kernel(NormInputs<X, Y> in, NormSinks<X> to) {
  wait_for_previous_kernel();
  using P = Piece<width>;
  using Columns = NormColumns<gated, width, X, Y>;
  const unsigned row = blockIdx.x * (threads / lanes) + threadIdx.x / lanes, lane = threadIdx.x % lanes;
  if (row >= in.rows) return;
  Columns columns[held];
  P weights[held];
  unrolled<held>([&](unsigned k) {
    const unsigned column = (lane + lanes * k) * width;
    columns[k] = Columns::of(in, row, column, column < in.columns);
    weights[k] = P::of(in.weight + column, column < in.columns);
  });
  const float inverse = in.inverse[row];
  float sum = 0;
  P unused = {};
  unrolled<held>([&](unsigned k) { sum += columns[k].weigh(weights[k], inverse, unused); });
  for (unsigned column = (lane + lanes * held) * width; column < in.columns; column += lanes * width)
    sum += Columns::of(in, row, column, true).weigh(P::of(in.weight + column, true), inverse, unused);
  const float mean = sum_of_lanes<lanes>(sum) / float(in.columns) * inverse * inverse;
  unrolled<held>([&](unsigned k) {
    const unsigned column = (lane + lanes * k) * width;
    if (column < in.columns) columns[k].put(row, column, in.columns, weights[k], inverse, mean, to);
  });
  for (unsigned column = (lane + lanes * held) * width; column < in.columns; column += lanes * width) {
    const P weight = P::of(in.weight + column, true);
    Columns::of(in, row, column, true).put(row, column, in.columns, weight, inverse, mean, to);
  }
}

constexpr unsigned together = 4, max_block = 512;  // rows; threads of a multiprocessor

// The same for many rows, including the gradient of the weight: a block takes several whole rows at a time, a thread 16
// bytes of each, and writes the column sums over the block's rows to `partials` [blocks, columns].
template <bool gated, class X, class Y>
__global__ void __launch_bounds__(max_block)
    norm_all_backward_kernel(NormInputs<X, Y> in, NormSinks<X> to, float* partials) {
  wait_for_previous_kernel();
  constexpr unsigned width = max_piece<X>;
  using P = Piece<width>;
  using Columns = NormColumns<gated, width, X, Y>;
  __shared__ float sums[2][together][max_block / 32];
  const unsigned column = width * threadIdx.x;
  const bool inside = column < in.columns;
  const P weight = P::of(in.weight + column, inside);
  P to_weight = {};
  unsigned buffer = 0;
  for (unsigned row = blockIdx.x * together; row < in.rows; row += gridDim.x * together, buffer ^= 1) {
    Columns columns[together];
    float inverse[together];
    unrolled<together>([&](unsigned k) {
      columns[k] = Columns::of(in, row + k, column, inside && row + k < in.rows);
      inverse[k] = row + k < in.rows ? in.inverse[row + k] : 0.0f;
    });
    unrolled<together>([&](unsigned k) {
      const float sum = warp_sum(columns[k].weigh(weight, inverse[k], to_weight));
      if (threadIdx.x % 32 == 0) sums[buffer][k][threadIdx.x / 32] = sum;
    });
    __syncthreads();
    unrolled<together>([&](unsigned k) {
      float sum = 0;
      for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) sum += sums[buffer][k][warp];
      const float mean = sum / float(in.columns) * inverse[k] * inverse[k];
      if (inside && row + k < in.rows)
        columns[k].again().put(row + k, column, in.columns, weight, inverse[k], mean, to);
    });
  }
  if (inside) to_weight.store(partials + blockIdx.x * std::size_t{in.columns} + column);
}

/// Whether rows and weights can be read in vectors of 16 bytes of x.
template <class X, class Y>
bool in_wide_pieces(const NormInputs<X, Y>& in) {
  constexpr unsigned width = max_piece<X>;
  return reinterpret_cast<std::uintptr_t>(in.weight) % 16 == 0 && in.columns % width == 0 && in_pieces<width>(in.x) &&
         in_pieces<width>(in.z) && in_pieces<width>(in.dy);
}

/// Calls body with the numbers of a vector, the vectors that a lane holds and the lanes of a row, as compile-time
/// constants; `whole` says whether tensors outside `in` can be read in such vectors.
template <class X, class Y, class Body>
void with_pieces(const NormInputs<X, Y>& in, bool whole, const Body& body) {
  constexpr std::integral_constant<unsigned, max_piece<X>> width;
  constexpr std::integral_constant<unsigned, 1> one;
  constexpr std::integral_constant<unsigned, 32> warp;
  if (!whole || !in_wide_pieces(in)) return body(one, std::integral_constant<unsigned, 8>(), warp);
  if (in.columns <= 16 * width()) return body(width, one, std::integral_constant<unsigned, 16>());
  with_capacity<1u, 2u, 4u, 8u>(blocks_for(in.columns, 32 * width()), [&](auto held) { body(width, held, warp); });
}

/// All gradients of a norm at once; false when its rows are few or their size is not supported. A gradient to be
/// accumulated may still be computed on the side stream, so its sum runs there.
template <bool gated, class X, class Y>
bool norm_all_backward(const CudaBackend& backend, const NormInputs<X, Y>& in, const NormSinks<X>& to,
                       const Grad& dweight) {
  constexpr unsigned width = max_piece<X>;
  const bool whole =
      in_wide_pieces(in) && in_pieces<width>(in.base) && in_pieces<width>(to.x.rows) && in_pieces<width>(to.z.rows);
  if (in.rows <= max_narrow_rows || in.columns > width * max_block || !whole || !dweight.wanted() || dweight.accumulate)
    return false;
  const unsigned block = blocks_for(in.columns, 32 * width) * 32, columns = in.columns;
  const unsigned blocks = at_most(blocks_for(in.rows, together), multiprocessors() * (max_block / block));
  float* partials = backend.scratch(blocks * std::size_t{columns});
  launch(norm_all_backward_kernel<gated, X, Y>, blocks, block, 0, backend.stream(), in, to, partials);
  ColumnSums sums;
  sums.add(columns, dweight);
  add_partials(backend, "gradients of a norm", partials, blocks, columns, sums);
  return true;
}

template <bool gated, class X, class Y>
void norm_backward(const CudaBackend& backend, const NormInputs<X, Y>& in, const NormSinks<X>& to) {
  if (in.rows == 0 || !(to.x.wanted() || to.z.wanted())) return;
  constexpr unsigned piece_width = max_piece<X>;
  const bool whole =
      in_pieces<piece_width>(in.base) && in_pieces<piece_width>(to.x.rows) && in_pieces<piece_width>(to.z.rows);
  with_pieces(in, whole, [&](auto width, auto held, auto lanes) {
    launch(backend, "rms_norm_backward", norm_backward_kernel<gated, width, held, lanes, X, Y>,
           blocks_for(in.rows, threads / lanes), threads, in, to);
  });
}

constexpr unsigned max_weights = 8;  // of one launch

template <class X, class Y>
struct NormWeights {
  NormInputs<X, Y> in[max_weights];
  Sink to[max_weights];
};

/// A thread's part of the sums over rows of dy u inverse; all loads precede the arithmetic.
template <Normed kind, unsigned width, class X, class Y>
__device__ void add_weight_shares(const NormInputs<X, Y>& in, unsigned thread, unsigned column, float (&sums)[width]) {
  using P = Piece<width>;
  constexpr unsigned step = narrow_block / narrow_columns, together = kind == Normed::gated && width > 1 ? 2 : 4;
  for (unsigned row = thread / narrow_columns; row < in.rows; row += together * step) {
    Stored<X, width> x[together], z[together];
    Stored<Y, width> dy[together];
    float inverse[together];
    unrolled<together>([&](unsigned k) {
      const unsigned r = row + k * step;
      const bool inside = r < in.rows;
      x[k] = Stored<X, width>::of(in.x, r, column, inside);
      z[k] = Stored<X, width>::of(in.z, r, column, inside && kind == Normed::gated);
      dy[k] = Stored<Y, width>::of(in.dy, r, column, inside);
      inverse[k] = inside ? in.inverse[r] : 0.0f;
    });
    unrolled<together>([&](unsigned k) {
      const P own_x = P::of(x[k]), own_z = P::of(z[k]), own_dy = P::of(dy[k]);
      unrolled<width>(
          [&](unsigned e) { sums[e] += own_dy.v[e] * inverse[k] * normalised<kind, X>(own_x.v[e], own_z.v[e]); });
    });
  }
}

template <unsigned rounds, unsigned width, class X, class Y>
__global__ void __launch_bounds__(narrow_block / rounds)
    norm_weights_kernel(const __grid_constant__ NormWeights<X, Y> weights) {
  wait_for_previous_kernel();
  const NormInputs<X, Y>& in = weights.in[blockIdx.y];
  const Sink& to = weights.to[blockIdx.y];
  if (blockIdx.x * narrow_columns * width >= in.columns) return;
  const unsigned column = (blockIdx.x * narrow_columns + threadIdx.x % narrow_columns) * width;
  float sums[rounds][width] = {};
  unrolled<rounds>([&](unsigned round) {
    const unsigned thread = round * (narrow_block / rounds) + threadIdx.x;
    if (column < in.columns && in.z.data != nullptr) {
      add_weight_shares<Normed::gated>(in, thread, column, sums[round]);
    } else if (column < in.columns) {
      add_weight_shares<Normed::plain>(in, thread, column, sums[round]);
    }
  });
  finish_narrow_sums(sums, in.columns, [&](unsigned c, float total) { to.put(c, total); });
}

template <class X = float, class Y = float>
NormInputs<X, Y> norm_inputs(const Tensor& x, const Tensor& weight, const Tensor& inverse) {
  NormInputs<X, Y> in{};
  in.x = rows_of<X>(x);
  in.weight = weight.as<float>();
  in.inverse = inverse.as<float>();
  in.rows = unsigned(x.rows());
  in.columns = unsigned(x.columns());
  return in;
}

template <Normed kind, class X, class Y>
void norm(const CudaBackend& backend, const RmsNorm& n) {
  if (n.x.rows() == 0) return;
  NormInputs<X, Y> in = norm_inputs<X, Y>(n.x, n.weight, n.inverse);
  in.z = rows_of<X>(n.z);
  in.sum = rows_of(n.sum);
  const Rows<Y> to = rows_of<Y>(n.y);
  constexpr unsigned piece_width = max_piece<X>;
  with_pieces(in, in_pieces<piece_width>(to) && in_pieces<piece_width>(in.sum), [&](auto width, auto held, auto lanes) {
    launch(backend, "rms_norm", norm_kernel<kind, width, held, lanes, X, Y>, blocks_for(in.rows, threads / lanes),
           threads, in, float(n.eps), to, rounded_result(backend, n.rounded));
  });
}

/// The gradient of a weight over more rows than one block should take.
template <class X, class Y>
void sum_long_weight(const CudaBackend& backend, const NormInputs<X, Y>& in, const Grad& dweight) {
  column_sums(backend, "norm weights", in.rows, in.columns, dweight, [in] __device__(unsigned row, unsigned column) {
    const float x = float(in.x.at(row, column)), factor = float(in.dy.at(row, column)) * in.inverse[row];
    return factor * (in.z.data == nullptr ? normalised<Normed::plain, X>(x, 0.0f)
                                          : normalised<Normed::gated, X>(x, float(in.z.at(row, column))));
  });
}

template <class T>
bool is_stored_as(const Tensor& tensor) {
  return (tensor.dtype == DType::bf16) == std::is_same_v<T, Bf16>;
}

/// The gradients of the weights whose norms store X and Y.
template <class X, class Y, class Weights>
void sum_weights(const CudaBackend& backend, const Weights& all) {
  NormWeights<X, Y> weights{};
  constexpr unsigned fours = 4, many_columns = 512;  // with fewer of all norms most of the GPU would idle
  unsigned count = 0, columns = 1, all_columns = 0;
  bool in_fours = true;
  for (const auto& from : all) {
    if (!is_stored_as<X>(from.x) || !is_stored_as<Y>(from.dy)) continue;
    NormInputs<X, Y> in = norm_inputs<X, Y>(from.x, {}, from.inverse);
    in.dy = rows_of<Y>(from.dy);
    in.z = rows_of<X>(from.z);
    if (in.rows > max_narrow_rows) {
      sum_long_weight(backend, in, from.dweight);
      continue;
    }
    weights.in[count] = in;
    weights.to[count++] = sink_of(from.dweight);
    columns = std::max(columns, in.columns);
    all_columns += in.columns;
    in_fours = in_fours && in.columns % fours == 0 && in_pieces<fours>(in.x) && in_pieces<fours>(in.z) &&
               in_pieces<fours>(in.dy);
  }
  if (count == 0) return;
  with_rounds([&](auto rounds) {
    with_either<fours, 1u>(in_fours && (all_columns >= many_columns || is_gpu_shared()), [&](auto width) {
      launch(norm_weights_kernel<rounds, width, X, Y>, dim3(blocks_for(columns, narrow_columns * width), count),
             narrow_block / rounds, 0, backend.stream(), weights);
    });
  });
}

struct LayerNormInputs {
  Rows<float> x, dy;
  const float *weight, *bias;
  float* moments;  // [rows,2]: mean, inverse deviation

  __device__ float normalised(unsigned row, unsigned column) const {
    return (x.at(row, column) - moments[2 * std::size_t{row}]) * moments[2 * std::size_t{row} + 1];
  }
  __device__ void forward(float eps, const Rows<float>& y, unsigned row, unsigned lane) const {
    const auto n = float(x.columns);
    float sum = 0, squares = 0;
    for (unsigned column = lane; column < x.columns; column += 32) sum += x.at(row, column);
    const float mean = warp_sum(sum) / n;
    for (unsigned column = lane; column < x.columns; column += 32) {
      const float distance = x.at(row, column) - mean;
      squares += distance * distance;
    }
    const float inverse = 1.0f / sqrtf(warp_sum(squares) / n + eps);
    if (lane == 0) {
      moments[2 * std::size_t{row}] = mean;
      moments[2 * std::size_t{row} + 1] = inverse;
    }
    for (unsigned column = lane; column < x.columns; column += 32)
      y.at(row, column) = (x.at(row, column) - mean) * inverse * weight[column] + bias[column];
  }
  /// With u the normalised row and g = dy * weight: dx = (g - mean(g) - u mean(g u)) inverse.
  __device__ void backward(const Sink& dx, unsigned row, unsigned lane) const {
    const auto n = float(x.columns);
    float sum = 0, projection = 0;
    for (unsigned column = lane; column < x.columns; column += 32) {
      const float g = weight[column] * dy.at(row, column);
      sum += g;
      projection += g * normalised(row, column);
    }
    const float shift = warp_sum(sum) / n, pull = warp_sum(projection) / n;
    for (unsigned column = lane; column < x.columns; column += 32) {
      const float g = weight[column] * dy.at(row, column);
      dx.put(row, column, (g - shift - normalised(row, column) * pull) * moments[2 * std::size_t{row} + 1]);
    }
  }
};

}  // namespace

void CudaBackend::rms_norm(const RmsNorm& n) {
  const auto can_wait = [](const Tensor& row) {
    return row.dtype == DType::f32 && reinterpret_cast<std::uintptr_t>(row.data) % 16 == 0;
  };
  const bool waits = n.x.rows() == 1 && !n.rounded.defined() && context_ == &main_ && can_wait(n.x) && can_wait(n.z) &&
                     can_wait(n.weight) && can_wait(n.sum) && can_wait(n.y);
  if (!waits) return launch_norm(n);
  stream();
  waiting_norm = n;
}

void CudaBackend::launch_norm(const RmsNorm& n) const {
  with_stored_type(n.y, [&]<class T>(T) {
    if (n.kind == Normed::gated) return norm<Normed::gated, T, T>(*this, n);
    if (n.kind == Normed::sum) return norm<Normed::sum, float, T>(*this, n);
    norm<Normed::plain, float, T>(*this, n);
  });
}

void CudaBackend::rms_norm_backward(const RmsNorm& n, const RmsNormGrads& out) {
  const auto run = [&]<class X, class Y>(auto gated, X, Y) {
    NormInputs<X, Y> in = norm_inputs<X, Y>(n.x, n.weight, n.inverse);
    in.z = rows_of<X>(n.z);
    in.dy = rows_of<Y>(out.dy);
    in.base = rows_of(out.base);
    const NormSinks<X> to{sink_of<X>(out.x), sink_of<X>(out.z), out.narrow.as<Bf16>()};
    if (norm_all_backward<gated()>(*this, in, to, out.weight)) return;
    norm_backward<gated()>(*this, in, to);
    queue_norm_weight({n.x, n.z, n.inverse, out.dy, out.weight});
  };
  with_stored_type(out.dy, [&]<class T>(T stored) {
    if (n.z.defined()) return run(std::true_type(), stored, stored);
    run(std::false_type(), 0.0f, stored);
  });
}

// The operands of gradients do not change before the backward pass ends, so these sums can wait.
void CudaBackend::queue_norm_weight(const NormWeight& weight) {
  if (!weight.dweight.wanted()) return;
  const void* to = weight.dweight.tensor.data;
  for (const NormWeight& other : norm_weights_) {
    if (other.dweight.tensor.data != to) continue;
    sum_norm_weights(false);  // the same weight again: one after the other
    break;
  }
  norm_weights_.push_back(weight);
  if (norm_weights_.size() == max_weights || weight.x.rows() > max_narrow_rows) sum_norm_weights(false);
}

void CudaBackend::sum_norm_weights(bool is_last) {
  if (norm_weights_.empty()) return;
  const bool adds = std::any_of(norm_weights_.begin(), norm_weights_.end(),
                                [](const NormWeight& weight) { return weight.dweight.accumulate; });
  std::optional<SideStream> side;
  if (!is_last || adds) side.emplace(*this);  // accumulated gradients may still be computed there
  sum_weights<float, float>(*this, norm_weights_);
  sum_weights<float, Bf16>(*this, norm_weights_);
  sum_weights<Bf16, Bf16>(*this, norm_weights_);
  norm_weights_.clear();
  launched("norm weights");
}

void CudaBackend::layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, const Tensor& y,
                             const Tensor& moments) {
  const LayerNormInputs in{rows_of(x), {}, weight.as<float>(), bias.as<float>(), moments.as<float>()};
  map_rows(*this, "layer_norm", x.rows(),
           [in, epsilon = float(eps), to = rows_of(y)] __device__(unsigned row, unsigned lane) {
             in.forward(epsilon, to, row, lane);
           });
}

void CudaBackend::layer_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& moments, const Tensor& dy,
                                      const Grad& dx, const Grad& dweight, const Grad& dbias) {
  const LayerNormInputs in{rows_of(x), rows_of(dy), weight.as<float>(), nullptr, moments.as<float>()};
  {
    const SideStream side(*this);
    ColumnSums sums;
    sums.add(x.columns(), dweight);
    sums.add(x.columns(), dbias);
    column_sums_each(*this, "layer_norm_backward", x.rows(), sums,
                     [in, of_bias = dweight.wanted() ? 1u : 0u] __device__(unsigned which, unsigned r, unsigned c) {
                       return in.dy.at(r, c) * (which == of_bias ? 1.0f : in.normalised(r, c));
                     });
  }
  if (dx.wanted())
    map_rows(*this, "layer_norm_backward", x.rows(),
             [in, to = sink_of(dx)] __device__(unsigned row, unsigned lane) { in.backward(to, row, lane); });
}

}  // namespace afterglow
