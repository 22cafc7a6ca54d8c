// Series, squared error and dropout of the CPU back end.
#include <cmath>

#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cpu/segments.h"
#include "core/backend/dropout_mask.h"

namespace afterglow {
namespace {

template <class T>
using Strided = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>, 0, Eigen::InnerStride<>>;

/// Channel c of window b of a tensor [B,L,C].
template <class T>
Strided<T> channel(const Tensor& x, std::int64_t b, std::int64_t c) {
  return {x.as<T>() + b * x.shape[1] * x.shape[2] + c, x.shape[1], Eigen::InnerStride<>(x.shape[2])};
}

/// Calls body(series, window, channel) for every one of B*C series.
template <class Body>
void for_each_series(ThreadPool& pool, const Tensor& typed, std::int64_t windows, std::int64_t channels,
                     const Body& body) {
  with_type(typed, [&](auto type) {
    pool.for_ranges(windows * channels, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) body(type, i, i / channels, i % channels);
    });
  });
}

template <class T>
void put_number(const Grad& grad, std::int64_t i, T value) {
  if (!grad.wanted()) return;
  T& place = grad.tensor.as<T>()[i];
  place = grad.accumulate ? place + value : value;
}

template <class T, class Values>
void put_channel(const Grad& grad, std::int64_t b, std::int64_t c, const Values& values) {
  if (grad.wanted()) put_into(channel<T>(grad.tensor, b, c), values, grad.accumulate);
}

}  // namespace

void CpuBackend::series_moments(const Tensor& x, double eps, const Tensor& mean, const Tensor& deviation) {
  for_each_series(pool_, x, x.shape[0], x.shape[2], [&]<class T>(T, std::int64_t i, std::int64_t b, std::int64_t c) {
    const Strided<T> series = channel<T>(x, b, c);
    const T middle = series.mean();
    mean.as<T>()[i] = middle;
    deviation.as<T>()[i] = std::sqrt((series - middle).square().mean() + static_cast<T>(eps));
  });
}

void CpuBackend::series_moments_backward(const Tensor& x, const Tensor& mean, const Tensor& deviation,
                                         const Tensor& ddeviation, const Grad& dx) {
  for_each_series(pool_, x, x.shape[0], x.shape[2], [&]<class T>(T, std::int64_t i, std::int64_t b, std::int64_t c) {
    const T slope = ddeviation.as<T>()[i] / (deviation.as<T>()[i] * static_cast<T>(x.shape[1]));
    put_channel<T>(dx, b, c, (channel<T>(x, b, c) - mean.as<T>()[i]) * slope);
  });
}

void CpuBackend::series_normalise(const Tensor& x, const Tensor& mean, const Tensor& deviation, const Tensor& z) {
  for_each_series(pool_, x, x.shape[0], x.shape[2], [&]<class T>(T, std::int64_t i, std::int64_t b, std::int64_t c) {
    whole_row<T>(z, i) = (channel<T>(x, b, c) - mean.as<T>()[i]) / deviation.as<T>()[i];
  });
}

void CpuBackend::series_normalise_backward(const Tensor& z, const Tensor& deviation, const Tensor& dz, const Grad& dx,
                                           const Grad& ddeviation) {
  for_each_series(pool_, z, deviation.shape[0], deviation.shape[1],
                  [&]<class T>(T, std::int64_t i, std::int64_t b, std::int64_t c) {
                    const T inverse = T{1} / deviation.as<T>()[i];
                    const ArrayMap<T> upstream = whole_row<T>(dz, i);
                    put_channel<T>(dx, b, c, upstream * inverse);
                    put_number<T>(ddeviation, i, -(upstream * whole_row<T>(z, i)).sum() * inverse);
                  });
}

void CpuBackend::series_restore(const Tensor& z, const Tensor& mean, const Tensor& deviation, const Tensor& y) {
  for_each_series(pool_, z, deviation.shape[0], deviation.shape[1],
                  [&]<class T>(T, std::int64_t i, std::int64_t b, std::int64_t c) {
                    channel<T>(y, b, c) = whole_row<T>(z, i) * deviation.as<T>()[i] + mean.as<T>()[i];
                  });
}

void CpuBackend::series_restore_backward(const Tensor& z, const Tensor& deviation, const Tensor& dy, const Grad& dz,
                                         const Grad& ddeviation) {
  for_each_series(pool_, z, deviation.shape[0], deviation.shape[1],
                  [&]<class T>(T, std::int64_t i, std::int64_t b, std::int64_t c) {
                    const Strided<T> upstream = channel<T>(dy, b, c);
                    put_number<T>(ddeviation, i, (upstream * whole_row<T>(z, i)).sum());
                    put_row<T>(dz, i, upstream * deviation.as<T>()[i]);
                  });
}

void CpuBackend::squared_error(const Tensor& a, const Tensor& b, const Tensor& loss, const Tensor& absolute) {
  with_type(a, [&]<class T>(T) {
    struct Partial {};
    const std::int64_t pieces = (a.elements() + segment_length - 1) / segment_length;
    double* sums = thread_scratch<double, Partial>(2 * pieces);
    pool_.for_ranges(a.elements(), segment_length, [&](std::int64_t begin, std::int64_t end) {
      const auto apart =
          (constant_row(a.as<T>() + begin, end - begin) - constant_row(b.as<T>() + begin, end - begin)).eval();
      double* place = sums + 2 * (begin / segment_length);
      place[0] = static_cast<double>(apart.square().sum());
      place[1] = static_cast<double>(apart.abs().sum());
    });
    double squares = 0, moduli = 0;
    for (std::int64_t i = 0; i < pieces; ++i) {
      squares += sums[2 * i];
      moduli += sums[2 * i + 1];
    }
    const auto count = static_cast<double>(a.elements());
    *loss.as<T>() = static_cast<T>(squares / count);
    *absolute.as<T>() = static_cast<T>(moduli / count);
  });
}

void CpuBackend::squared_error_backward(const Tensor& a, const Tensor& b, const Tensor& dloss, const Grad& da) {
  if (!da.wanted()) return;
  with_type(a, [&]<class T>(T) {
    const T slope = T{2} * *dloss.as<T>() / static_cast<T>(a.elements());
    for_segments(pool_, {a, b, da.tensor},
                 [&](const Segment& s) { put<T>(da, s, (part<T>(a, s) - part<T>(b, s)) * slope); });
  });
}

void CpuBackend::dropout(const Tensor& x, double rate, std::uint64_t seed, std::uint32_t site, const Tensor& counter,
                         const Grad& y) {
  if (!y.wanted()) return;
  const std::int32_t step = *counter.as<std::int32_t>();
  const auto limit = static_cast<float>(rate);
  with_type(x, [&]<class T>(T) {
    const T factor = T{1} / (T{1} - static_cast<T>(rate));
    pool_.for_ranges(x.elements(), 4 * segment_length, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; i += 4) {
        const PhiloxBlock block = dropout_block(seed, site, step, static_cast<std::uint32_t>(i / 4));
        const std::uint32_t bits[] = {block.x0, block.x1, block.x2, block.x3};
        for (std::int64_t j = i; j < std::min(i + 4, end); ++j) {
          const T value = dropout_keeps(bits[j - i], limit) ? x.as<T>()[j] * factor : T{0};
          put_into(y.tensor.as<T>()[j], value, y.accumulate);
        }
      }
    });
  });
}

}  // namespace afterglow
