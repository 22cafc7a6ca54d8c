// Projections of a few rows, y[t, n] = sum over k of x[t, k] w[n, k] + bias[n], as decoding token by token has them; x
// may be the RMS norm of one row (norm.h), which every block computes for itself: y = inverse (x weight) w^T.
// Memory-bound: a warp reads two rows of w once, several vectors of 16 bytes of each in flight, and multiplies them by
// all rows of x, which lie in shared memory, in float32 arithmetic in every precision, with the same bits however the
// numbers of w are stored. Grid: a block a multiprocessor, whose warps take pairs of outputs of all projections in
// turn.
#include <algorithm>
#include <utility>

#include "gpu/ops/elementwise/step_sizes.cuh"
#include "gpu/ops/product/few_rows.h"
#include "gpu/ops/product/product.cuh"
#include "gpu/runtime/kernel.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr unsigned max_rows = 4;  // of x
constexpr unsigned block = 512, block_warps = block / 32;
constexpr unsigned width = 8, span = 32 * width;  // columns that a lane and a warp take at once
constexpr unsigned pair = 2;                      // outputs of a warp
template <class T>
constexpr unsigned ahead = 8 / sizeof(T);  // pieces of a row in flight
using P = Piece<width>;

/// T is the stored type of w.
template <class T>
struct FewRows {
  Rows<T> w[max_products];
  Rows<float> y[max_products];
  const float* bias[max_products];
  unsigned outputs[max_products];
  unsigned end[max_products];  // pairs of outputs of this projection and those before it
  unsigned pairs;              // of all
};

/// The norm of one row that projections compute themselves.
struct NormOfRow {
  const float *x = nullptr, *z = nullptr, *weight = nullptr;
  float *sum = nullptr, *y = nullptr, *inverse = nullptr;
  float eps = 0;
  Normed kind = Normed::plain;
  /// Four numbers before the division; of a sum, one block writes them.
  __device__ float4 operator()(unsigned four) const {
    float4 v = reinterpret_cast<const float4*>(x)[four];
    if (kind == Normed::plain) return v;
    const float4 other = reinterpret_cast<const float4*>(z)[four];
    if (kind == Normed::gated)
      return make_float4(v.x * silu(other.x), v.y * silu(other.y), v.z * silu(other.z), v.w * silu(other.w));
    v += other;
    if (four % gridDim.x == blockIdx.x) reinterpret_cast<float4*>(sum)[four] = v;
    return v;
  }
};

constexpr unsigned max_taps = 4;

/// The convolution and step sizes of a projection's results, by the lanes that have these (kernel_list.inc,
/// `conv_with_steps`); without history it computes nothing.
struct StepsOfRows {
  const float *weight = nullptr, *bias = nullptr;
  float *history = nullptr, *before = nullptr, *y = nullptr, *sizes = nullptr;
  unsigned first = 0, channels = 0, taps = 0;  // in the columns of the results
  unsigned first_step = 0, steps = 0;
  StepSize<float> size = {};
  struct Channel {
    float weights[max_taps], inputs[max_taps], bias;
  };
  /// What a result's channel needs, loaded before that is known.
  __device__ Channel channel(unsigned row, unsigned output) const {
    Channel own{};
    const unsigned c = output - first, kept = taps - 1;
    if (history == nullptr || c >= channels) return own;
    unrolled<max_taps>([&](unsigned i) {
      if (i < taps) own.weights[i] = weight[c * taps + i];
      if (i < kept) own.inputs[i] = history[(row * kept + i) * channels + c];
    });
    if (bias != nullptr) own.bias = bias[c];
    return own;
  }
  __device__ void put(Channel own, unsigned row, unsigned output, float result) const {
    const unsigned c = output - first, step = output - first_step, kept = taps - 1;
    if (history == nullptr) return;
    if (step < steps) sizes[row * steps + step] = size.of(result, step);
    if (c >= channels) return;
    float sum = own.bias;
    unrolled<max_taps>([&](unsigned i) {
      if (i == kept) own.inputs[i] = result;
      if (i < taps) sum += own.weights[i] * own.inputs[i];
      if (i > 0 && i < taps) history[(row * kept + i - 1) * channels + c] = own.inputs[i];
    });
    if (before != nullptr) before[row * channels + c] = sum;
    y[row * channels + c] = silu(sum);
  }
};

/// Where four numbers of a row lie in shared memory: a warp reads the first halves of its lanes' pieces side by side,
/// then the second ones.
__device__ unsigned place_of(unsigned four) {
  constexpr unsigned fours = span / 4;
  return four / fours * fours + four % 2 * 32 + four % fours / 2;
}
__device__ P staged(const float4* row, unsigned column) {
  const float4* own = row + column / span * (span / 4) + threadIdx.x % 32;
  const float4 first = own[0], second = own[32];
  return {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
}
__host__ __device__ unsigned padded(unsigned columns) { return (columns + span - 1) / span * span; }

/// Puts the rows there, a normed one without its factor, which it returns; each block writes a part of the norm's
/// results.
__device__ float stage(const Rows<float>& x, unsigned count, const NormOfRow& norm, float4* to) {
  __shared__ float parts[block_warps];
  const unsigned fours = x.columns / 4, stride = padded(x.columns) / 4;
  float squares = 0;
  for (unsigned i = threadIdx.x; i < count * fours; i += block) {
    const unsigned t = i / fours, four = i % fours;
    const float4 v = norm.weight != nullptr ? norm(four) : reinterpret_cast<const float4*>(&x.at(t, 0))[four];
    squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    const float4 w =
        norm.weight != nullptr ? reinterpret_cast<const float4*>(norm.weight)[four] : make_float4(1, 1, 1, 1);
    to[t * stride + place_of(four)] = make_float4(v.x * w.x, v.y * w.y, v.z * w.z, v.w * w.w);
  }
  const float inverse = 1.0f / sqrtf(block_sum(squares, parts) / float(x.columns) + norm.eps);
  if (norm.weight == nullptr) return 1;
  for (unsigned four = blockIdx.x + gridDim.x * threadIdx.x; four < fours; four += gridDim.x * block)
    reinterpret_cast<float4*>(norm.y)[four] = inverse * to[place_of(four)];
  if (blockIdx.x == 0 && threadIdx.x == 0) *norm.inverse = inverse;
  return inverse;
}

// `may_read_early`: the weights may be read before the previous kernel has ended.
template <unsigned rows, class T>
__global__ void __launch_bounds__(block, 1)
    few_rows_kernel(Rows<float> x, unsigned count, const __grid_constant__ FewRows<T> all, NormOfRow norm,
                    const __grid_constant__ StepsOfRows steps, bool may_read_early) {
  extern __shared__ float4 shared_rows[];
  if (!may_read_early) wait_for_previous_kernel();
  const unsigned lane = threadIdx.x % 32, begin_unit = blockIdx.x + gridDim.x * (threadIdx.x / 32);
  unsigned which = 0, n = 0;
  Stored<T, width> w[pair][ahead<T>];
  const auto find = [&](unsigned unit) {
    for (which = 0; which + 1 < max_products && unit >= all.end[which];) ++which;
    n = pair * (unit - (which > 0 ? all.end[which - 1] : 0));
  };
  const auto read = [&](unsigned begin) {
    unrolled<pair, ahead<T>>([&](unsigned i, unsigned k) {
      const unsigned column = begin + span * k;
      w[i][k] = Stored<T, width>::of(all.w[which], n + i, column, n + i < all.outputs[which] && column < x.columns);
    });
  };
  const unsigned first = lane * width;
  if (begin_unit < all.pairs) {
    find(begin_unit);
    read(first);
  }
  wait_for_previous_kernel();
  const float factor = stage(x, count, norm, shared_rows);
  for (unsigned unit = begin_unit; unit < all.pairs; unit += gridDim.x * block_warps) {
    if (unit != begin_unit) {
      find(unit);
      read(first);
    }
    const unsigned output = n + lane / rows, row = lane % rows;  // whose sum this lane gets
    const bool inside = lane < pair * rows && row < count && output < all.outputs[which];
    const auto channel = inside ? steps.channel(row, output) : StepsOfRows::Channel();
    float sums[pair][rows] = {}, own_sum = 0;
    for (unsigned begin = first; begin < x.columns; begin += span * ahead<T>) {
      if (begin != first) read(begin);
      unrolled<ahead<T>, rows>([&](unsigned k, unsigned t) {
        const unsigned column = begin + span * k;
        if (column >= x.columns || t >= count) return;
        const P numbers = staged(shared_rows + t * (padded(x.columns) / 4), column);
        unrolled<pair>([&](unsigned i) { sums[i][t] += product_of(P::of(w[i][k]), numbers); });
      });
    }
    unrolled<pair, rows>([&](unsigned i, unsigned t) {
      const float sum = warp_sum(sums[i][t]);
      if (lane == i * rows + t) own_sum = factor * sum;
    });
    if (!inside) continue;
    if (all.bias[which] != nullptr) own_sum += all.bias[which][output];
    all.y[which].at(row, output) = own_sum;
    steps.put(channel, row, output, own_sum);
  }
}

NormOfRow norm_of_row(const RmsNorm& n) {
  return {n.x.as<float>(), n.z.as<float>(),       n.weight.as<float>(), n.sum.as<float>(),
          n.y.as<float>(), n.inverse.as<float>(), float(n.eps),         n.kind};
}

StepsOfRows steps_of_rows(const StepsCall& call, const Tensor& result) {
  const auto& [x, weight, bias, before, history] = call.conv;
  const auto at = [](const Tensor& tensor) { return tensor.as<float>(); };
  StepsOfRows of{at(weight), at(bias), at(history), at(before), at(call.y), at(call.sizes)};
  of.first = unsigned(at(x) - at(result));
  of.channels = unsigned(x.columns());
  of.taps = unsigned(weight.shape[2]);
  of.first_step = unsigned(at(call.steps.x) - at(result));
  of.steps = unsigned(call.steps.x.columns());
  of.size = StepSize<float>(call.steps);
  return of;
}

/// Whether rows can be read by vectors of 16 bytes.
bool in_vectors(const Tensor& matrix) {
  return reinterpret_cast<std::uintptr_t>(matrix.data) % 16 == 0 && matrix.row_stride % width == 0;
}

}  // namespace

bool few_row_projections(const CudaBackend& backend, const Tensor& x, std::span<const Tensor> weights,
                         std::span<const Tensor> biases, std::span<const Tensor> results) {
  const auto reads = [&](const Tensor& weight) { return weight.dtype == weights.front().dtype && in_vectors(weight); };
  const std::int64_t shared = x.rows() * padded(unsigned(x.columns())) * std::int64_t(sizeof(float));
  if (x.rows() > max_rows || weights.size() > max_products || x.columns() % width != 0 || x.elements() == 0 ||
      is_narrow(x) || !in_vectors(x) || !std::all_of(weights.begin(), weights.end(), reads) ||
      is_narrow(results.front()) || shared > max_shared_memory() / 2)
    return false;
  std::optional<RmsNorm> norm;
  if (backend.waiting_norm && backend.waiting_norm->y.data == x.data &&
      backend.waiting_norm->y.columns() == x.columns())
    norm = std::exchange(backend.waiting_norm, {});
  backend.stream();
  const Tensor result = results.front();
  with_stored_type(weights.front(), [&]<class T>(T) {
    FewRows<T> all{};
    bool are_pinned = true;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      all.w[i] = rows_of<T>(weights[i]);
      all.y[i] = rows_of(results[i]);
      all.bias[i] = i < biases.size() ? biases[i].as<float>() : nullptr;
      all.outputs[i] = unsigned(weights[i].rows());
      all.pairs += blocks_for(weights[i].rows(), pair);
      all.end[i] = all.pairs;
      are_pinned = are_pinned && backend.is_pinned(weights[i].as<float>());
    }
    const auto launch_with = [=, &backend](const StepsCall* steps) {
      with_either<1u, max_rows>(x.rows() == 1, [&](auto rows) {
        launch("projections of a few rows", few_rows_kernel<rows, T>, at_most(multiprocessors(), all.pairs), block,
               std::size_t(shared), backend.stream(), rows_of(x), unsigned(x.rows()), all,
               norm ? norm_of_row(*norm) : NormOfRow(), steps ? steps_of_rows(*steps, result) : StepsOfRows(),
               are_pinned);
      });
      backend.launched("projections of a few rows");
    };
    if (backend.is_on_side_stream() || weights.size() > 1) return launch_with(nullptr);
    backend.waiting_projections = {result, launch_with};
  });
  return true;
}

bool convolve_few_rows(const CudaBackend& backend, const StepsCall& call) {
  if (!backend.waiting_projections) return false;
  const Tensor &result = backend.waiting_projections->result, &x = call.conv.x;
  const auto holds = [&](const Tensor& part) {
    const std::ptrdiff_t first = part.as<float>() - result.as<float>();
    return part.dtype == DType::f32 && first >= 0 && first + part.columns() <= result.columns() &&
           part.rows() == result.rows() && (part.rows() == 1 || part.row_stride == result.row_stride);
  };
  if (!call.conv.history.defined() || x.shape[1] != 1 || call.conv.weight.shape[2] > max_taps || !holds(x) ||
      !holds(call.steps.x))
    return false;
  std::exchange(backend.waiting_projections, {})->launch(&call);
  return true;
}

}  // namespace afterglow
