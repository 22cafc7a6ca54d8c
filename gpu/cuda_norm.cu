// Norms over the last axis: RMS, plain and gated (Mamba-2), and LayerNorm. Bound by memory: a warp takes a row. The
// gradient of the weights is a launch of its own, beside the others, because it runs along the other axis.
#include <type_traits>

#include "gpu/cuda_backend.h"
#include "gpu/cuda_columns.cuh"
#include "gpu/cuda_device.cuh"
#include "gpu/cuda_launch.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr unsigned warps = threads / 32;

struct NormInputs {
  Rows<float> x, z, dy;
  const float* weight;
  float* inverse;
  unsigned rows, columns;
};

/// The number that is normalised: x, or x silu(z).
template <bool gated>
__device__ float normalised(const NormInputs& in, unsigned row, unsigned column) {
  const float x = in.x.at(row, column);
  return gated ? x * silu(in.z.at(row, column)) : x;
}

// A lane holds up to `held` numbers of its row, so that a row is read once; the loops end early where columns do.
template <bool gated, unsigned held>
__global__ void __launch_bounds__(threads) norm_kernel(NormInputs in, float eps, Rows<float> y) {
  await_previous();
  const unsigned row = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= in.rows) return;
  float values[held], sum = 0;
#pragma unroll
  for (unsigned k = 0; k < held; ++k) {
    const unsigned column = lane + 32 * k;
    values[k] = column < in.columns ? normalised<gated>(in, row, column) : 0.0f;
    sum += values[k] * values[k];
  }
  for (unsigned column = lane + 32 * held; column < in.columns; column += 32) {
    const float value = normalised<gated>(in, row, column);
    sum += value * value;
  }
  const float inverse = 1.0f / sqrtf(warp_sum(sum) / static_cast<float>(in.columns) + eps);
  if (lane == 0) in.inverse[row] = inverse;
#pragma unroll
  for (unsigned k = 0; k < held; ++k) {
    const unsigned column = lane + 32 * k;
    if (column < in.columns) y.at(row, column) = values[k] * inverse * in.weight[column];
  }
  for (unsigned column = lane + 32 * held; column < in.columns; column += 32) {
    y.at(row, column) = normalised<gated>(in, row, column) * inverse * in.weight[column];
  }
}

/// What the gradient needs of one column.
struct NormColumn {
  float x, z, upstream;  // upstream: dy weight
  template <bool gated>
  __device__ static NormColumn of(const NormInputs& in, unsigned row, unsigned column) {
    return {in.x.at(row, column), gated ? in.z.at(row, column) : 0.0f, in.weight[column] * in.dy.at(row, column)};
  }
  template <bool gated>
  __device__ float gate() const {
    return gated ? silu(z) : 1.0f;
  }
  template <bool gated>
  __device__ void put(unsigned row, unsigned column, float inverse, float mean, const Sink& dx, const Sink& dz) const {
    const float du = inverse * (upstream - x * gate<gated>() * mean);
    if (dx.wanted()) dx.put(row, column, du * gate<gated>());
    if (gated && dz.wanted()) dz.put(row, column, du * x * silu_slope(z));
  }
};

// y = u inverse w: du = inverse (w dy - u inverse^2 mean(w dy u)), dw = sum over rows of dy u inverse.
template <bool gated, unsigned held>
__global__ void __launch_bounds__(threads) norm_backward_kernel(NormInputs in, Sink dx, Sink dz) {
  await_previous();
  const unsigned row = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= in.rows) return;
  NormColumn columns[held];
  float sum = 0;
#pragma unroll
  for (unsigned k = 0; k < held; ++k) {
    const unsigned column = lane + 32 * k;
    columns[k] = column < in.columns ? NormColumn::of<gated>(in, row, column) : NormColumn{};
    sum += columns[k].upstream * columns[k].x * columns[k].template gate<gated>();
  }
  for (unsigned column = lane + 32 * held; column < in.columns; column += 32) {
    const NormColumn one = NormColumn::of<gated>(in, row, column);
    sum += one.upstream * one.x * one.template gate<gated>();
  }
  const float inverse = in.inverse[row];
  const float mean = warp_sum(sum) / static_cast<float>(in.columns) * inverse * inverse;
#pragma unroll
  for (unsigned k = 0; k < held; ++k) {
    const unsigned column = lane + 32 * k;
    if (column < in.columns) columns[k].template put<gated>(row, column, inverse, mean, dx, dz);
  }
  for (unsigned column = lane + 32 * held; column < in.columns; column += 32) {
    NormColumn::of<gated>(in, row, column).template put<gated>(row, column, inverse, mean, dx, dz);
  }
}

/// Calls body with how many numbers a lane should hold, as a compile-time constant.
template <class Body>
void with_held(unsigned columns, const Body& body) {
  if (columns <= 128) return body(std::integral_constant<unsigned, 4>());
  if (columns <= 512) return body(std::integral_constant<unsigned, 16>());
  body(std::integral_constant<unsigned, 32>());
}

template <bool gated>
void norm(cudaStream_t stream, const NormInputs& in, double eps, const Tensor& y) {
  if (in.rows == 0) return;
  with_held(in.columns, [&](auto held) {
    launch(norm_kernel<gated, held>, blocks_for(in.rows, warps), threads, 0, stream, in, static_cast<float>(eps),
           rows_of(y));
  });
}

template <bool gated>
void norm_backward(cudaStream_t stream, const NormInputs& in, const Grad& dx, const Grad& dz) {
  if (in.rows == 0 || !(dx.wanted() || dz.wanted())) return;
  with_held(in.columns, [&](auto held) {
    launch(norm_backward_kernel<gated, held>, blocks_for(in.rows, warps), threads, 0, stream, in, sink_of(dx),
           sink_of(dz));
  });
}

/// `partials` is scratch for the sums over rows.
template <bool gated>
void weight_backward(cudaStream_t stream, const NormInputs& in, const Grad& dweight, float* partials,
                     unsigned* tickets) {
  column_sums(stream, in.rows, in.columns, partials, tickets, dweight, [in] __device__(unsigned row, unsigned column) {
    return in.dy.at(row, column) * normalised<gated>(in, row, column) * in.inverse[row];
  });
}

struct LayerNormInputs {
  Rows<float> x, dy;
  const float *weight, *bias;
  float* moments;  // [rows,2]: mean, inverse deviation
  unsigned rows, columns;

  __device__ float normalised(unsigned row, unsigned column) const {
    return (x.at(row, column) - moments[2 * std::size_t{row}]) * moments[2 * std::size_t{row} + 1];
  }
};

__global__ void __launch_bounds__(threads) layer_norm_kernel(LayerNormInputs in, float eps, Rows<float> y) {
  await_previous();
  const unsigned row = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= in.rows) return;
  const auto n = static_cast<float>(in.columns);
  float sum = 0, squares = 0;
  for (unsigned column = lane; column < in.columns; column += 32) sum += in.x.at(row, column);
  const float mean = warp_sum(sum) / n;
  for (unsigned column = lane; column < in.columns; column += 32) {
    const float distance = in.x.at(row, column) - mean;
    squares += distance * distance;
  }
  const float inverse = 1.0f / sqrtf(warp_sum(squares) / n + eps);
  if (lane == 0) {
    in.moments[2 * std::size_t{row}] = mean;
    in.moments[2 * std::size_t{row} + 1] = inverse;
  }
  for (unsigned column = lane; column < in.columns; column += 32) {
    y.at(row, column) = (in.x.at(row, column) - mean) * inverse * in.weight[column] + in.bias[column];
  }
}

// With u the normalised row and g = dy * weight: dx = (g - mean(g) - u mean(g u)) inverse.
__global__ void __launch_bounds__(threads) layer_norm_backward_kernel(LayerNormInputs in, Sink dx) {
  await_previous();
  const unsigned row = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= in.rows) return;
  const auto n = static_cast<float>(in.columns);
  float sum = 0, projection = 0;
  for (unsigned column = lane; column < in.columns; column += 32) {
    const float g = in.weight[column] * in.dy.at(row, column);
    sum += g;
    projection += g * in.normalised(row, column);
  }
  const float shift = warp_sum(sum) / n, pull = warp_sum(projection) / n;
  for (unsigned column = lane; column < in.columns; column += 32) {
    const float g = in.weight[column] * in.dy.at(row, column);
    dx.put(row, column, (g - shift - in.normalised(row, column) * pull) * in.moments[2 * std::size_t{row} + 1]);
  }
}

}  // namespace

void CudaBackend::rms_norm(const Tensor& x, const Tensor& weight, double eps, const Tensor& y, const Tensor& inverse) {
  const NormInputs in{rows_of(x),
                      {},
                      {},
                      weight.as<float>(),
                      inverse.as<float>(),
                      static_cast<unsigned>(x.rows()),
                      static_cast<unsigned>(x.columns())};
  norm<false>(stream(), in, eps, y);
  launched("rms_norm");
}

void CudaBackend::gated_rms_norm(const Tensor& x, const Tensor& z, const Tensor& weight, double eps, const Tensor& y,
                                 const Tensor& inverse) {
  const NormInputs in{rows_of(x),
                      rows_of(z),
                      {},
                      weight.as<float>(),
                      inverse.as<float>(),
                      static_cast<unsigned>(x.rows()),
                      static_cast<unsigned>(x.columns())};
  norm<true>(stream(), in, eps, y);
  launched("gated_rms_norm");
}

void CudaBackend::rms_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& inverse, const Tensor& dy,
                                    const Grad& dx, const Grad& dweight) {
  const NormInputs in{rows_of(x),
                      {},
                      rows_of(dy),
                      weight.as<float>(),
                      inverse.as<float>(),
                      static_cast<unsigned>(x.rows()),
                      static_cast<unsigned>(x.columns())};
  if (dweight.wanted()) {
    const Beside beside(*this);
    weight_backward<false>(stream(), in, dweight, scratch(std::size_t{most_ranges} * in.columns), tickets_);
  }
  norm_backward<false>(stream(), in, dx, {});
  launched("rms_norm_backward");
}

void CudaBackend::gated_rms_norm_backward(const Tensor& x, const Tensor& z, const Tensor& weight, const Tensor& inverse,
                                          const Tensor& dy, const Grad& dx, const Grad& dz, const Grad& dweight) {
  const NormInputs in{rows_of(x),
                      rows_of(z),
                      rows_of(dy),
                      weight.as<float>(),
                      inverse.as<float>(),
                      static_cast<unsigned>(x.rows()),
                      static_cast<unsigned>(x.columns())};
  if (dweight.wanted()) {
    const Beside beside(*this);
    weight_backward<true>(stream(), in, dweight, scratch(std::size_t{most_ranges} * in.columns), tickets_);
  }
  norm_backward<true>(stream(), in, dx, dz);
  launched("gated_rms_norm_backward");
}

void CudaBackend::layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, const Tensor& y,
                             const Tensor& moments) {
  const LayerNormInputs in{rows_of(x),
                           {},
                           weight.as<float>(),
                           bias.as<float>(),
                           moments.as<float>(),
                           static_cast<unsigned>(x.rows()),
                           static_cast<unsigned>(x.columns())};
  if (in.rows == 0) return;
  launch(layer_norm_kernel, blocks_for(in.rows, warps), threads, 0, stream(), in, static_cast<float>(eps), rows_of(y));
  launched("layer_norm");
}

void CudaBackend::layer_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& moments, const Tensor& dy,
                                      const Grad& dx, const Grad& dweight, const Grad& dbias) {
  const LayerNormInputs in{rows_of(x),
                           rows_of(dy),
                           weight.as<float>(),
                           nullptr,
                           moments.as<float>(),
                           static_cast<unsigned>(x.rows()),
                           static_cast<unsigned>(x.columns())};
  {
    const Beside beside(*this);
    float* partials = scratch(std::size_t{most_ranges} * in.columns);
    if (dweight.wanted()) {
      column_sums(stream(), in.rows, in.columns, partials, tickets_, dweight,
                  [in] __device__(unsigned r, unsigned c) { return in.dy.at(r, c) * in.normalised(r, c); });
    }
    sum_rows(dy, dbias);
  }
  if (in.rows > 0 && dx.wanted())
    launch(layer_norm_backward_kernel, blocks_for(in.rows, warps), threads, 0, stream(), in, sink_of(dx));
  launched("layer_norm_backward");
}

}  // namespace afterglow
