// Division of every row by its length: a warp takes a row, bound by memory.
#include "gpu/cuda_backend.h"
#include "gpu/device/device.cuh"
#include "gpu/device/launch.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr unsigned warps = threads / 32;

__global__ void __launch_bounds__(threads)
    unit_norm_kernel(Rows<const float> x, unsigned rows, float eps, Rows<float> y, float* norms) {
  await_previous();
  const unsigned row = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float sum = 0;
  for (unsigned column = lane; column < x.columns; column += 32) sum += x.at(row, column) * x.at(row, column);
  const float norm = sqrtf(warp_sum(sum)), inverse = 1.0f / (norm + eps);
  if (lane == 0) norms[row] = norm;
  for (unsigned column = lane; column < x.columns; column += 32) y.at(row, column) = x.at(row, column) * inverse;
}

// dx = dy / (|x| + eps) - x (x . dy) / (|x| (|x| + eps)^2).
__global__ void __launch_bounds__(threads)
    unit_norm_backward_kernel(Rows<const float> x, Rows<const float> dy, unsigned rows, float eps, const float* norms,
                              Sink dx) {
  await_previous();
  const unsigned row = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float sum = 0;
  for (unsigned column = lane; column < x.columns; column += 32) sum += x.at(row, column) * dy.at(row, column);
  const float overlap = warp_sum(sum), norm = norms[row], inverse = 1.0f / (norm + eps);
  const float pull = norm > 0.0f ? overlap * inverse * inverse / norm : 0.0f;
  for (unsigned column = lane; column < x.columns; column += 32)
    dx.put(row, column, dy.at(row, column) * inverse - x.at(row, column) * pull);
}

}  // namespace

void CudaBackend::unit_norm(const Tensor& x, double eps, const Tensor& y, const Tensor& norms) {
  const auto rows = static_cast<unsigned>(x.rows());
  if (rows == 0) return;
  launch(unit_norm_kernel, blocks_for(rows, warps), threads, 0, stream(), rows_of<const float>(x), rows,
         static_cast<float>(eps), rows_of(y), norms.as<float>());
  launched("unit_norm");
}

void CudaBackend::unit_norm_backward(const Tensor& x, double eps, const Tensor& norms, const Tensor& dy,
                                     const Grad& dx) {
  const auto rows = static_cast<unsigned>(x.rows());
  if (rows == 0 || !dx.wanted()) return;
  launch(unit_norm_backward_kernel, blocks_for(rows, warps), threads, 0, stream(), rows_of<const float>(x),
         rows_of<const float>(dy), rows, static_cast<float>(eps), norms.as<float>(), sink_of(dx));
  launched("unit_norm_backward");
}

}  // namespace afterglow
