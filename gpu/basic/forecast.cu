// Normalisation of series, squared error and dropout. Memory-bound; a warp takes a series.
#include "core/backend/dropout_mask.h"
#include "gpu/cuda_backend.h"
#include "gpu/device/device.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr unsigned warps = threads / 32;
constexpr unsigned error_blocks = 256;

/// Windows [B,L,C] and the rows [B*C,L] of their channels.
struct Windows {
  unsigned length, channels, series;
  __device__ std::size_t at(unsigned i, unsigned t) const {
    return (static_cast<std::size_t>(i / channels) * length + t) * channels + i % channels;
  }
};

Windows windows_of(const Tensor& x) {
  return {static_cast<unsigned>(x.shape[1]), static_cast<unsigned>(x.shape[2]),
          static_cast<unsigned>(x.shape[0] * x.shape[2])};
}
Windows windows_of(const Tensor& rows, const Tensor& deviation) {
  return {static_cast<unsigned>(rows.shape[1]), static_cast<unsigned>(deviation.shape[1]),
          static_cast<unsigned>(rows.shape[0])};
}

/// Calls body(series, lane) with one warp for every series.
template <class Body>
__global__ void __launch_bounds__(threads) series_kernel(unsigned series, Body body) {
  const unsigned i = blockIdx.x * warps + threadIdx.x / 32;
  if (i < series) body(i, threadIdx.x % 32);
}

template <class Body>
void for_each_series(cudaStream_t stream, unsigned series, const Body& body) {
  if (series > 0) series_kernel<<<blocks_for(series, warps), threads, 0, stream>>>(series, body);
}

__global__ void __launch_bounds__(threads)
    squared_error_kernel(unsigned count, const float* a, const float* b, float* partials, unsigned* ticket, float* loss,
                         float* absolute) {
  __shared__ float sums[32];
  float squares = 0, moduli = 0;
  for (std::size_t i = blockIdx.x * threads + threadIdx.x; i < count; i += gridDim.x * threads) {
    const float apart = a[i] - b[i];
    squares += apart * apart;
    moduli += fabsf(apart);
  }
  squares = block_sum(squares, sums);
  moduli = block_sum(moduli, sums);
  if (threadIdx.x == 0) {
    partials[2 * blockIdx.x] = squares;
    partials[2 * blockIdx.x + 1] = moduli;
  }
  if (!is_last_block(ticket, gridDim.x)) return;
  const bool counts = threadIdx.x < gridDim.x;
  squares = block_sum(counts ? partials[2 * threadIdx.x] : 0.0f, sums);
  moduli = block_sum(counts ? partials[2 * threadIdx.x + 1] : 0.0f, sums);
  if (threadIdx.x == 0) {
    *loss = squares / static_cast<float>(count);
    *absolute = moduli / static_cast<float>(count);
  }
}

__global__ void __launch_bounds__(threads)
    squared_error_backward_kernel(unsigned count, const float* a, const float* b, const float* dloss, Sink da) {
  const unsigned i = blockIdx.x * threads + threadIdx.x;
  if (i < count) da.put(i, 2.0f * *dloss / static_cast<float>(count) * (a[i] - b[i]));
}

__global__ void __launch_bounds__(threads)
    dropout_kernel(unsigned count, const float* x, float rate, std::uint64_t seed, std::uint32_t site,
                   const int* counter, Sink y) {
  const unsigned block = blockIdx.x * threads + threadIdx.x;
  if (block * std::size_t{4} >= count) return;
  const PhiloxBlock random = dropout_block(seed, site, *counter, block);
  const std::uint32_t bits[] = {random.x0, random.x1, random.x2, random.x3};
#pragma unroll
  for (unsigned j = 0; j < 4; ++j) {
    const unsigned i = 4 * block + j;
    if (i < count) y.put(i, dropout_keeps(bits[j], rate) ? x[i] / (1.0f - rate) : 0.0f);
  }
}

}  // namespace

void CudaBackend::series_moments(const Tensor& x, double eps, const Tensor& mean, const Tensor& deviation) {
  const Windows windows = windows_of(x);
  for_each_series(stream(), windows.series,
                  [windows, from = x.as<float>(), epsilon = static_cast<float>(eps), middle = mean.as<float>(),
                   spread = deviation.as<float>()] __device__(unsigned i, unsigned lane) {
                    float sum = 0;
                    for (unsigned t = lane; t < windows.length; t += 32) sum += from[windows.at(i, t)];
                    const float average = warp_sum(sum) / static_cast<float>(windows.length);
                    float squares = 0;
                    for (unsigned t = lane; t < windows.length; t += 32) {
                      const float apart = from[windows.at(i, t)] - average;
                      squares += apart * apart;
                    }
                    squares = warp_sum(squares) / static_cast<float>(windows.length);
                    if (lane > 0) return;
                    middle[i] = average;
                    spread[i] = sqrtf(squares + epsilon);
                  });
  launched("series_moments");
}

void CudaBackend::series_moments_backward(const Tensor& x, const Tensor& mean, const Tensor& deviation,
                                          const Tensor& ddeviation, const Grad& dx) {
  if (!dx.wanted()) return;
  const Windows windows = windows_of(x);
  for_each_series(stream(), windows.series,
                  [windows, from = x.as<float>(), middle = mean.as<float>(), spread = deviation.as<float>(),
                   upstream = ddeviation.as<float>(), to = sink_of(dx)] __device__(unsigned i, unsigned lane) {
                    const float slope = upstream[i] / (spread[i] * static_cast<float>(windows.length));
                    for (unsigned t = lane; t < windows.length; t += 32) {
                      const std::size_t place = windows.at(i, t);
                      to.put(static_cast<unsigned>(place), (from[place] - middle[i]) * slope);
                    }
                  });
  launched("series_moments_backward");
}

void CudaBackend::series_normalise(const Tensor& x, const Tensor& mean, const Tensor& deviation, const Tensor& z) {
  const Windows windows = windows_of(x);
  for_each_series(stream(), windows.series,
                  [windows, from = x.as<float>(), middle = mean.as<float>(), spread = deviation.as<float>(),
                   to = z.as<float>()] __device__(unsigned i, unsigned lane) {
                    for (unsigned t = lane; t < windows.length; t += 32)
                      to[static_cast<std::size_t>(i) * windows.length + t] =
                          (from[windows.at(i, t)] - middle[i]) / spread[i];
                  });
  launched("series_normalise");
}

void CudaBackend::series_normalise_backward(const Tensor& z, const Tensor& deviation, const Tensor& dz, const Grad& dx,
                                            const Grad& ddeviation) {
  const Windows windows = windows_of(z, deviation);
  for_each_series(stream(), windows.series,
                  [windows, rows = z.as<float>(), spread = deviation.as<float>(), upstream = dz.as<float>(),
                   to = sink_of(dx), to_spread = sink_of(ddeviation)] __device__(unsigned i, unsigned lane) {
                    const float inverse = 1.0f / spread[i];
                    float sum = 0;
                    for (unsigned t = lane; t < windows.length; t += 32) {
                      const std::size_t place = static_cast<std::size_t>(i) * windows.length + t;
                      sum += upstream[place] * rows[place];
                      if (to.wanted()) to.put(static_cast<unsigned>(windows.at(i, t)), upstream[place] * inverse);
                    }
                    sum = warp_sum(sum);
                    if (lane == 0 && to_spread.wanted()) to_spread.put(i, -sum * inverse);
                  });
  launched("series_normalise_backward");
}

void CudaBackend::series_restore(const Tensor& z, const Tensor& mean, const Tensor& deviation, const Tensor& y) {
  const Windows windows = windows_of(z, deviation);
  for_each_series(stream(), windows.series,
                  [windows, rows = z.as<float>(), middle = mean.as<float>(), spread = deviation.as<float>(),
                   to = y.as<float>()] __device__(unsigned i, unsigned lane) {
                    for (unsigned t = lane; t < windows.length; t += 32)
                      to[windows.at(i, t)] =
                          rows[static_cast<std::size_t>(i) * windows.length + t] * spread[i] + middle[i];
                  });
  launched("series_restore");
}

void CudaBackend::series_restore_backward(const Tensor& z, const Tensor& deviation, const Tensor& dy, const Grad& dz,
                                          const Grad& ddeviation) {
  const Windows windows = windows_of(z, deviation);
  for_each_series(stream(), windows.series,
                  [windows, rows = z.as<float>(), spread = deviation.as<float>(), upstream = dy.as<float>(),
                   to = sink_of(dz), to_spread = sink_of(ddeviation)] __device__(unsigned i, unsigned lane) {
                    float sum = 0;
                    for (unsigned t = lane; t < windows.length; t += 32) {
                      const std::size_t place = static_cast<std::size_t>(i) * windows.length + t;
                      const float slope = upstream[windows.at(i, t)];
                      sum += slope * rows[place];
                      if (to.wanted()) to.put(static_cast<unsigned>(place), slope * spread[i]);
                    }
                    sum = warp_sum(sum);
                    if (lane == 0 && to_spread.wanted()) to_spread.put(i, sum);
                  });
  launched("series_restore_backward");
}

void CudaBackend::squared_error(const Tensor& a, const Tensor& b, const Tensor& loss, const Tensor& absolute) {
  static_assert(error_blocks <= threads, "the last block adds one partial sum a thread");
  const auto count = static_cast<unsigned>(a.elements());
  const unsigned blocks = count > 0 ? at_most(blocks_for(count, threads), error_blocks) : 1;
  squared_error_kernel<<<blocks, threads, 0, stream()>>>(count, a.as<float>(), b.as<float>(),
                                                         scratch(2 * std::size_t{error_blocks}), tickets_,
                                                         loss.as<float>(), absolute.as<float>());
  launched("squared_error");
}

void CudaBackend::squared_error_backward(const Tensor& a, const Tensor& b, const Tensor& dloss, const Grad& da) {
  const auto count = static_cast<unsigned>(a.elements());
  if (!da.wanted() || count == 0) return;
  squared_error_backward_kernel<<<blocks_for(count, threads), threads, 0, stream()>>>(
      count, a.as<float>(), b.as<float>(), dloss.as<float>(), sink_of(da));
  launched("squared_error_backward");
}

void CudaBackend::dropout(const Tensor& x, double rate, std::uint64_t seed, std::uint32_t site, const Tensor& counter,
                          const Grad& y) {
  const auto count = static_cast<unsigned>(x.elements());
  if (!y.wanted() || count == 0) return;
  dropout_kernel<<<blocks_for(count, 4 * threads), threads, 0, stream()>>>(
      count, x.as<float>(), static_cast<float>(rate), seed, site, counter.as<int>(), sink_of(y));
  launched("dropout");
}

}  // namespace afterglow
