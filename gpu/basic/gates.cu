// Gates of recurrent layers: the logarithm of a forgetting gate, and one factor for every row. Bound by memory.
#include "gpu/cuda_backend.h"
#include "gpu/device/columns.cuh"
#include "gpu/device/device.cuh"
#include "gpu/device/launch.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr unsigned warps = threads / 32;

/// y = -exp(A_log) softplus(x + bias).
struct DecayInputs {
  Rows<const float> x, dy;
  const float *A_log, *bias;
  __device__ float rate(unsigned column) const { return -expf(A_log[column]); }
  __device__ float slope(std::size_t row, unsigned column) const {
    return dy.at(row, column) * rate(column) * sigmoid(x.at(row, column) + bias[column]);
  }
};

__global__ void __launch_bounds__(threads) log_decay_kernel(DecayInputs in, unsigned count, Rows<float> y) {
  await_previous();
  const unsigned i = blockIdx.x * threads + threadIdx.x;
  if (i >= count) return;
  const unsigned row = i / y.columns, column = i % y.columns;
  y.at(row, column) = in.rate(column) * softplus(in.x.at(row, column) + in.bias[column]);
}

__global__ void __launch_bounds__(threads) log_decay_backward_kernel(DecayInputs in, unsigned count, Sink dx) {
  await_previous();
  const unsigned i = blockIdx.x * threads + threadIdx.x;
  if (i >= count) return;
  const unsigned row = i / in.x.columns, column = i % in.x.columns;
  dx.put(row, column, in.slope(row, column));
}

__global__ void __launch_bounds__(threads)
    multiply_rows_kernel(Rows<const float> x, const float* factor, float offset, unsigned count, Rows<float> y) {
  const unsigned i = blockIdx.x * threads + threadIdx.x;
  if (i < count) y[i] = x[i] * (factor[i / x.columns] + offset);
}

__global__ void __launch_bounds__(threads)
    multiply_rows_backward_kernel(Rows<const float> x, const float* factor, float offset, Rows<const float> dy,
                                  unsigned rows, Sink dx, Sink dfactor) {
  const unsigned row = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float sum = 0;
  for (unsigned column = lane; column < x.columns; column += 32) {
    const float upstream = dy.at(row, column);
    sum += upstream * x.at(row, column);
    if (dx.wanted()) dx.put(row, column, upstream * (factor[row] + offset));
  }
  sum = warp_sum(sum);
  if (lane == 0 && dfactor.wanted()) dfactor.put(row, sum);
}

}  // namespace

void CudaBackend::log_decay(const Tensor& x, const Tensor& A_log, const Tensor& bias, const Tensor& y) {
  if (x.elements() == 0) return;
  const DecayInputs in{rows_of<const float>(x), {}, A_log.as<float>(), bias.as<float>()};
  launch(log_decay_kernel, blocks_for(x.elements(), threads), threads, 0, stream(), in,
         static_cast<unsigned>(x.elements()), rows_of(y));
  launched("log_decay");
}

void CudaBackend::log_decay_backward(const Tensor& x, const Tensor& A_log, const Tensor& bias, const Tensor& dy,
                                     const Grad& dx, const Grad& dA_log, const Grad& dbias) {
  const DecayInputs in{rows_of<const float>(x), rows_of<const float>(dy), A_log.as<float>(), bias.as<float>()};
  const auto room = static_cast<std::size_t>(max_ranges * x.columns());
  if (dA_log.wanted()) {
    column_sums(stream(), x.rows(), x.columns(), scratch(room), tickets_, dA_log,
                [in] __device__(unsigned row, unsigned column) {
                  return in.dy.at(row, column) * in.rate(column) * softplus(in.x.at(row, column) + in.bias[column]);
                });
  }
  if (dbias.wanted()) {
    const SideStream beside(*this);
    column_sums(stream(), x.rows(), x.columns(), scratch(room), tickets_, dbias,
                [in] __device__(unsigned row, unsigned column) { return in.slope(row, column); });
  }
  if (x.elements() > 0 && dx.wanted()) {
    launch(log_decay_backward_kernel, blocks_for(x.elements(), threads), threads, 0, stream(), in,
           static_cast<unsigned>(x.elements()), sink_of(dx));
  }
  launched("log_decay_backward");
}

void CudaBackend::multiply_rows(const Tensor& x, const Tensor& factor, double offset, const Tensor& y) {
  if (x.elements() == 0) return;
  multiply_rows_kernel<<<blocks_for(x.elements(), threads), threads, 0, stream()>>>(
      rows_of<const float>(x), factor.as<float>(), static_cast<float>(offset), static_cast<unsigned>(x.elements()),
      rows_of(y));
  launched("multiply_rows");
}

void CudaBackend::multiply_rows_backward(const Tensor& x, const Tensor& factor, double offset, const Tensor& dy,
                                         const Grad& dx, const Grad& dfactor) {
  const auto rows = static_cast<unsigned>(x.rows());
  if (rows == 0) return;
  multiply_rows_backward_kernel<<<blocks_for(rows, warps), threads, 0, stream()>>>(
      rows_of<const float>(x), factor.as<float>(), static_cast<float>(offset), rows_of<const float>(dy), rows,
      sink_of(dx), sink_of(dfactor));
  launched("multiply_rows_backward");
}

}  // namespace afterglow
