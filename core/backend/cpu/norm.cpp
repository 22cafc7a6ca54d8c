// Root-mean-square and layer norms of the CPU back end.
#include <cmath>

#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cpu/segments.h"

namespace afterglow {
namespace {

template <class T>
T inverse_rms(T sum_of_squares, std::int64_t columns, double eps) {
  return T{1} / std::sqrt(sum_of_squares / static_cast<T>(columns) + static_cast<T>(eps));
}

/// With u the normed row and g = dy * weight: du = g inverse - u (g . u) inverse^3 / n.
template <class T>
T pull_of(T projection, T inverse, std::int64_t columns) {
  return projection * inverse * inverse * inverse / static_cast<T>(columns);
}

struct NormRows {};

}  // namespace

void CpuBackend::rms_norm(const RmsNorm& norm) {
  const Tensor& x = norm.kind == Normed::sum ? norm.sum : norm.x;
  if (norm.kind == Normed::sum) add(norm.x, norm.z, norm.sum);
  const std::int64_t n = x.columns();
  with_type(x, [&]<class T>(T) {
    const ArrayMap<T> w(norm.weight.as<T>(), n);
    for_rows(pool_, x.rows(), n, [&](std::int64_t r) {
      const ArrayMap<T> in = whole_row<T>(x, r);
      ArrayMap<T> out = whole_row<T>(norm.y, r);
      T& inverse = norm.inverse.as<T>()[r];
      if (norm.kind == Normed::gated) {
        const ArrayMap<T> gate = whole_row<T>(norm.z, r);
        out = in * gate * gate.logistic();
        inverse = inverse_rms(out.square().sum(), n, norm.eps);
        out *= inverse * w;
      } else {
        inverse = inverse_rms(in.square().sum(), n, norm.eps);
        out = in * inverse * w;
      }
    });
  });
}

void CpuBackend::rms_norm_backward(const RmsNorm& norm, const RmsNormGrads& out) {
  const std::int64_t n = norm.x.columns();
  const bool is_gated = norm.z.defined();
  with_type(norm.x, [&]<class T>(T) {
    const ArrayMap<T> w(norm.weight.as<T>(), n);
    const auto rows = [&](std::int64_t begin, std::int64_t end, T* sums) {
      const std::int64_t stride = (n + 15) / 16 * 16;
      T* memory = thread_scratch<T, NormRows>(3 * stride);
      ArrayMap<T> weight_sum(sums, n), sigma(memory, n), gated(memory + stride, n), slope(memory + 2 * stride, n);
      for (std::int64_t r = begin; r < end; ++r) {
        const ArrayMap<T> in = whole_row<T>(norm.x, r), gate = whole_row<T>(is_gated ? norm.z : norm.x, r),
                          upstream = whole_row<T>(out.dy, r);
        const T scale = norm.inverse.as<T>()[r];
        if (is_gated) {
          sigma = gate.logistic();
          gated = in * gate * sigma;
        }
        const ArrayMap<T>& normed = is_gated ? gated : in;
        const T pull = pull_of((upstream * w * normed).sum(), scale, n);
        weight_sum += upstream * normed * scale;
        slope = upstream * w * scale - normed * pull;
        if (is_gated) {
          put_row<T>(out.x, r, slope * gate * sigma);
          put_row<T>(out.z, r, slope * in * sigma * (T{1} + gate * (T{1} - sigma)));
        } else if (out.base.defined()) {
          put_row<T>(out.x, r, whole_row<T>(out.base, r) + slope);
        } else {
          put_row<T>(out.x, r, slope);
        }
      }
    };
    sum_over_rows<T>(pool_, norm.x.rows(), n, rows,
                     [&](const ArrayMap<T>& total) { put_vector<T>(out.weight, total); });
  });
}

void CpuBackend::layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, const Tensor& y,
                            const Tensor& moments) {
  const std::int64_t n = x.columns();
  with_type(x, [&]<class T>(T) {
    const ArrayMap<T> w(weight.as<T>(), n), b(bias.as<T>(), n);
    for_rows(pool_, x.rows(), n, [&](std::int64_t r) {
      const ArrayMap<T> in = whole_row<T>(x, r);
      ArrayMap<T> out = whole_row<T>(y, r);
      const T mean = in.sum() / static_cast<T>(n);
      out = in - mean;
      const T inverse = inverse_rms(out.square().sum(), n, eps);
      out = out * inverse * w + b;
      moments.as<T>()[2 * r] = mean;
      moments.as<T>()[2 * r + 1] = inverse;
    });
  });
}

// With u the normalised row and g = dy * weight: dx = (g - mean(g) - u mean(g u)) inverse.
void CpuBackend::layer_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& moments, const Tensor& dy,
                                     const Grad& dx, const Grad& dweight, const Grad& dbias) {
  const std::int64_t n = x.columns(), bias_sums = (n + 15) / 16 * 16;
  with_type(x, [&]<class T>(T) {
    const ArrayMap<T> w(weight.as<T>(), n);
    const auto rows = [&](std::int64_t begin, std::int64_t end, T* sums) {
      ArrayMap<T> weight_sum(sums, n), bias_sum(sums + bias_sums, n), u(thread_scratch<T, NormRows>(n), n);
      for (std::int64_t r = begin; r < end; ++r) {
        const ArrayMap<T> upstream = whole_row<T>(dy, r);
        const T mean = moments.as<T>()[2 * r], inverse = moments.as<T>()[2 * r + 1];
        u = (whole_row<T>(x, r) - mean) * inverse;
        const T pull = (upstream * w * u).sum() / static_cast<T>(n), shift = (upstream * w).sum() / static_cast<T>(n);
        weight_sum += upstream * u;
        bias_sum += upstream;
        put_row<T>(dx, r, (upstream * w - shift - u * pull) * inverse);
      }
    };
    sum_over_rows<T>(pool_, x.rows(), bias_sums + n, rows, [&](const ArrayMap<T>& total) {
      put_vector<T>(dweight, total.head(n));
      put_vector<T>(dbias, total.tail(n));
    });
  });
}

void CpuBackend::unit_norm(const Tensor& x, double eps, const Tensor& y, const Tensor& norms) {
  for_typed_rows(pool_, x, x.rows(), x.columns(), [&]<class T>(T, std::int64_t r) {
    const ArrayMap<T> in = whole_row<T>(x, r);
    const T norm = std::sqrt(in.square().sum());
    whole_row<T>(y, r) = in / (norm + static_cast<T>(eps));
    norms.as<T>()[r] = norm;
  });
}

// d|x| = x . dx / |x|, so dx = dy / (|x| + eps) - x (x . dy) / (|x| (|x| + eps)^2).
void CpuBackend::unit_norm_backward(const Tensor& x, double eps, const Tensor& norms, const Tensor& dy,
                                    const Grad& dx) {
  if (!dx.wanted()) return;
  for_typed_rows(pool_, x, x.rows(), x.columns(), [&]<class T>(T, std::int64_t r) {
    const ArrayMap<T> in = whole_row<T>(x, r), upstream = whole_row<T>(dy, r);
    const T norm = norms.as<T>()[r], inverse = T{1} / (norm + static_cast<T>(eps));
    const T pull = norm > T{0} ? (in * upstream).sum() * inverse * inverse / norm : T{0};
    put_row<T>(dx, r, upstream * inverse - in * pull);
  });
}

}  // namespace afterglow
