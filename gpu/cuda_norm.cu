// Norms over the last axis: RMS, plain and gated (Mamba-2), and LayerNorm. Bound by memory: a warp takes a row. The gradient of the
// weights is a launch of its own, because it runs along the other axis.
#include "gpu/cuda_backend.h"
#include "gpu/cuda_columns.cuh"
#include "gpu/cuda_device.cuh"

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

template <bool gated>
__global__ void __launch_bounds__(threads) norm_kernel(NormInputs in, float eps, Rows<float> y) {
  const unsigned row = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= in.rows) return;
  float sum = 0;
  for (unsigned column = lane; column < in.columns; column += 32) {
    const float value = normalised<gated>(in, row, column);
    sum += value * value;
  }
  const float inverse = 1.0f / sqrtf(warp_sum(sum) / static_cast<float>(in.columns) + eps);
  if (lane == 0) in.inverse[row] = inverse;
  for (unsigned column = lane; column < in.columns; column += 32) {
    y.at(row, column) = normalised<gated>(in, row, column) * inverse * in.weight[column];
  }
}

// y = u inverse w: du = inverse (w dy - u inverse^2 mean(w dy u)), dw = sum over rows of dy u inverse.
template <bool gated>
__device__ void norm_row_backward(const NormInputs& in, unsigned row, unsigned lane, const Sink& dx, const Sink& dz) {
  float sum = 0;
  for (unsigned column = lane; column < in.columns; column += 32) {
    sum += in.weight[column] * in.dy.at(row, column) * normalised<gated>(in, row, column);
  }
  const float inverse = in.inverse[row];
  const float mean = warp_sum(sum) / static_cast<float>(in.columns) * inverse * inverse;
  for (unsigned column = lane; column < in.columns; column += 32) {
    const float x = in.x.at(row, column);
    const float z = gated ? in.z.at(row, column) : 0.0f;
    const float gate = gated ? silu(z) : 1.0f;
    const float du = inverse * (in.weight[column] * in.dy.at(row, column) - x * gate * mean);
    if (dx.wanted()) dx.put(row, column, du * gate);
    if (gated && dz.wanted()) dz.put(row, column, du * x * silu_slope(z));
  }
}

template <bool gated>
__global__ void __launch_bounds__(threads) norm_backward_kernel(NormInputs in, Sink dx, Sink dz) {
  const unsigned row = blockIdx.x * warps + threadIdx.x / 32;
  if (row < in.rows) norm_row_backward<gated>(in, row, threadIdx.x % 32, dx, dz);
}

template <bool gated>
void norm(cudaStream_t stream, const NormInputs& in, double eps, const Tensor& y) {
  if (in.rows == 0) return;
  norm_kernel<gated><<<blocks_for(in.rows, warps), threads, 0, stream>>>(in, static_cast<float>(eps), rows_of(y));
}

/// `partials` is scratch for the sums over rows.
template <bool gated>
void norm_backward(cudaStream_t stream, const NormInputs& in, const Grad& dx, const Grad& dz, const Grad& dweight,
                   float* partials, unsigned* tickets) {
  if (in.rows > 0 && (dx.wanted() || dz.wanted())) {
    norm_backward_kernel<gated><<<blocks_for(in.rows, warps), threads, 0, stream>>>(in, sink_of(dx), sink_of(dz));
  }
  if (!dweight.wanted()) return;
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
  norm_backward<false>(stream(), in, dx, {}, dweight, scratch(std::size_t{most_ranges} * in.columns), tickets_);
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
  norm_backward<true>(stream(), in, dx, dz, dweight, scratch(std::size_t{most_ranges} * in.columns), tickets_);
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
  layer_norm_kernel<<<blocks_for(in.rows, warps), threads, 0, stream()>>>(in, static_cast<float>(eps), rows_of(y));
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
  if (in.rows > 0 && dx.wanted())
    layer_norm_backward_kernel<<<blocks_for(in.rows, warps), threads, 0, stream()>>>(in, sink_of(dx));
  float* partials = scratch(std::size_t{most_ranges} * in.columns);
  if (dweight.wanted()) {
    column_sums(stream(), in.rows, in.columns, partials, tickets_, dweight, [in] __device__(unsigned r, unsigned c) {
      return in.dy.at(r, c) * in.normalised(r, c);
    });
  }
  sum_rows(dy, dbias);
  launched("layer_norm_backward");
}

}  // namespace afterglow
