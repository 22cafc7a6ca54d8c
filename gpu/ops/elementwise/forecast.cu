// Series [B,L,C] normalised along L, z = (x - mean) / sqrt(variance + eps), and restored; mean squared and absolute
// error; dropout y = x / (1 - rate) where the random bits keep x. Grid: a warp a series, or an element a thread.
#include "core/backend/dropout_mask.h"
#include "gpu/tile/map.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr unsigned error_blocks = 256;

/// Windows [B,L,C] and the rows [B*C,L] of their channels.
struct Windows {
  unsigned length, channels, series;
  __device__ std::size_t at(unsigned i, unsigned t) const {
    return (std::size_t(i / channels) * length + t) * channels + i % channels;
  }
};

Windows windows_of(const Tensor& x) {
  return {unsigned(x.shape[1]), unsigned(x.shape[2]), unsigned(x.shape[0] * x.shape[2])};
}
Windows windows_of(const Tensor& rows, const Tensor& deviation) {
  return {unsigned(rows.shape[1]), unsigned(deviation.shape[1]), unsigned(rows.shape[0])};
}

/// The warp's sum over the tokens of a series; add(t, sum) adds that of token t.
template <class Add>
__device__ float sum_over(const Windows& windows, unsigned lane, const Add& add) {
  float sum = 0;
  for (unsigned t = lane; t < windows.length; t += 32) add(t, sum);
  return warp_sum(sum);
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
    *loss = squares / float(count);
    *absolute = moduli / float(count);
  }
}

}  // namespace

void CudaBackend::series_moments(const Tensor& x, double eps, const Tensor& mean, const Tensor& deviation) {
  const Windows windows = windows_of(x);
  map_rows(*this, "series_moments", windows.series,
           [windows, from = x.as<float>(), epsilon = float(eps), middle = mean.as<float>(),
            spread = deviation.as<float>()] __device__(unsigned i, unsigned lane) {
             const float average =
                 sum_over(windows, lane, [&](unsigned t, float& sum) { sum += from[windows.at(i, t)]; }) /
                 float(windows.length);
             const auto add_square = [&](unsigned t, float& sum) {
               const float apart = from[windows.at(i, t)] - average;
               sum += apart * apart;
             };
             const float squares = sum_over(windows, lane, add_square) / float(windows.length);
             if (lane > 0) return;
             middle[i] = average;
             spread[i] = sqrtf(squares + epsilon);
           });
}

void CudaBackend::series_moments_backward(const Tensor& x, const Tensor& mean, const Tensor& deviation,
                                          const Tensor& ddeviation, const Grad& dx) {
  if (!dx.wanted()) return;
  const Windows windows = windows_of(x);
  map_rows(*this, "series_moments_backward", windows.series,
           [windows, from = x.as<float>(), middle = mean.as<float>(), spread = deviation.as<float>(),
            upstream = ddeviation.as<float>(), to = sink_of(dx)] __device__(unsigned i, unsigned lane) {
             const float slope = upstream[i] / (spread[i] * float(windows.length));
             for (unsigned t = lane; t < windows.length; t += 32) {
               const std::size_t place = windows.at(i, t);
               to.put(unsigned(place), (from[place] - middle[i]) * slope);
             }
           });
}

void CudaBackend::series_normalise(const Tensor& x, const Tensor& mean, const Tensor& deviation, const Tensor& z) {
  const Windows windows = windows_of(x);
  map_rows(*this, "series_normalise", windows.series,
           [windows, from = x.as<float>(), middle = mean.as<float>(), spread = deviation.as<float>(),
            to = z.as<float>()] __device__(unsigned i, unsigned lane) {
             for (unsigned t = lane; t < windows.length; t += 32)
               to[std::size_t(i) * windows.length + t] = (from[windows.at(i, t)] - middle[i]) / spread[i];
           });
}

void CudaBackend::series_normalise_backward(const Tensor& z, const Tensor& deviation, const Tensor& dz, const Grad& dx,
                                            const Grad& ddeviation) {
  const Windows windows = windows_of(z, deviation);
  map_rows(*this, "series_normalise_backward", windows.series,
           [windows, rows = z.as<float>(), spread = deviation.as<float>(), upstream = dz.as<float>(), to = sink_of(dx),
            to_spread = sink_of(ddeviation)] __device__(unsigned i, unsigned lane) {
             const float inverse = 1.0f / spread[i];
             const float sum = sum_over(windows, lane, [&](unsigned t, float& so_far) {
               const std::size_t place = std::size_t(i) * windows.length + t;
               so_far += upstream[place] * rows[place];
               if (to.wanted()) to.put(unsigned(windows.at(i, t)), upstream[place] * inverse);
             });
             if (lane == 0 && to_spread.wanted()) to_spread.put(i, -sum * inverse);
           });
}

void CudaBackend::series_restore(const Tensor& z, const Tensor& mean, const Tensor& deviation, const Tensor& y) {
  const Windows windows = windows_of(z, deviation);
  map_rows(*this, "series_restore", windows.series,
           [windows, rows = z.as<float>(), middle = mean.as<float>(), spread = deviation.as<float>(),
            to = y.as<float>()] __device__(unsigned i, unsigned lane) {
             for (unsigned t = lane; t < windows.length; t += 32)
               to[windows.at(i, t)] = rows[std::size_t(i) * windows.length + t] * spread[i] + middle[i];
           });
}

void CudaBackend::series_restore_backward(const Tensor& z, const Tensor& deviation, const Tensor& dy, const Grad& dz,
                                          const Grad& ddeviation) {
  const Windows windows = windows_of(z, deviation);
  map_rows(*this, "series_restore_backward", windows.series,
           [windows, rows = z.as<float>(), spread = deviation.as<float>(), upstream = dy.as<float>(), to = sink_of(dz),
            to_spread = sink_of(ddeviation)] __device__(unsigned i, unsigned lane) {
             const float sum = sum_over(windows, lane, [&](unsigned t, float& so_far) {
               const std::size_t place = std::size_t(i) * windows.length + t;
               const float slope = upstream[windows.at(i, t)];
               so_far += slope * rows[place];
               if (to.wanted()) to.put(unsigned(place), slope * spread[i]);
             });
             if (lane == 0 && to_spread.wanted()) to_spread.put(i, sum);
           });
}

void CudaBackend::squared_error(const Tensor& a, const Tensor& b, const Tensor& loss, const Tensor& absolute) {
  static_assert(error_blocks <= threads, "the last block adds one partial sum a thread");
  const auto count = unsigned(a.elements());
  const unsigned blocks = count > 0 ? at_most(blocks_for(count, threads), error_blocks) : 1;
  squared_error_kernel<<<blocks, threads, 0, stream()>>>(count, a.as<float>(), b.as<float>(),
                                                         scratch(2 * std::size_t{error_blocks}), tickets_,
                                                         loss.as<float>(), absolute.as<float>());
  launched("squared_error");
}

void CudaBackend::squared_error_backward(const Tensor& a, const Tensor& b, const Tensor& dloss, const Grad& da) {
  if (!da.wanted()) return;
  map(*this, "squared_error_backward", a.elements(),
      [x = a.as<float>(), y = b.as<float>(), upstream = dloss.as<float>(), count = float(a.elements()),
       to = sink_of(da)] __device__(unsigned i) { to.put(i, 2.0f * *upstream / count * (x[i] - y[i])); });
}

// A thread takes the four numbers of one block of random bits.
void CudaBackend::dropout(const Tensor& x, double rate, std::uint64_t seed, std::uint32_t site, const Tensor& counter,
                          const Grad& y) {
  if (!y.wanted()) return;
  const auto count = unsigned(x.elements());
  map(*this, "dropout", (x.elements() + 3) / 4,
      [=, from = x.as<float>(), dropped = float(rate), step = counter.as<int>(),
       to = sink_of(y)] __device__(unsigned block) {
        const PhiloxBlock random = dropout_block(seed, site, *step, block);
        const std::uint32_t bits[] = {random.x0, random.x1, random.x2, random.x3};
        for (unsigned j = 0; j < 4; ++j) {
          const unsigned i = 4 * block + j;
          if (i < count) to.put(i, dropout_keeps(bits[j], dropped) ? from[i] / (1.0f - dropped) : 0.0f);
        }
      });
}

}  // namespace afterglow
