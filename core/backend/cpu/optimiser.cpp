// Gradient norms, AdamW and the search for non-finite numbers of the CPU back end.
#include <cmath>

#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cpu/segments.h"

namespace afterglow {
namespace {

struct SliceSums {};

/// Sum of squares in float64: eight partial sums, which are then added in order.
template <class T>
double sum_of_squares(const T* x, std::int64_t count) {
  constexpr int lanes = 8;
  double sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (int lane = 0; lane < lanes; ++lane)
      sums[lane] += static_cast<double>(x[i + lane]) * static_cast<double>(x[i + lane]);
  }
  for (; i < count; ++i) sums[i % lanes] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  double total = 0.0;
  for (const double sum : sums) total += sum;
  return total;
}

/// One AdamW step's numbers, in the type of the weights.
template <class T>
struct AdamwStep {
  T shrink, beta1, beta2, eps, rate, root_correction, clip;

  AdamwStep(const double* hyper, std::int32_t step, double norm) {
    const double learning_rate = hyper[0], clip_norm = hyper[5];
    shrink = static_cast<T>(1.0 - learning_rate * hyper[4]);
    beta1 = static_cast<T>(hyper[1]);
    beta2 = static_cast<T>(hyper[2]);
    eps = static_cast<T>(hyper[3]);
    rate = static_cast<T>(learning_rate / (1.0 - std::pow(hyper[1], step)));
    root_correction = static_cast<T>(std::sqrt(1.0 - std::pow(hyper[2], step)));
    clip = static_cast<T>(clip_norm > 0.0 ? std::min(1.0, clip_norm / (norm + 1e-6)) : 1.0);
  }

  /// One block of weights, all of which decay or do not.
  void update(T* weight, const T* gradient, T* first, T* second, std::int64_t count, bool decay) const {
    const T keep = decay ? shrink : T{1};
    for (std::int64_t i = 0; i < count; ++i) {
      const T g = gradient[i] * clip;
      const T m = first[i] + (T{1} - beta1) * (g - first[i]);
      const T v = second[i] * beta2 + (T{1} - beta2) * g * g;
      first[i] = m;
      second[i] = v;
      weight[i] = weight[i] * keep - rate * (m / (std::sqrt(v) / root_correction + eps));
    }
  }
};

}  // namespace

void CpuBackend::gradient_norms(const Tensor& gradients, const Tensor& offsets, const Tensor& norms,
                                const Tensor& total) {
  const std::int64_t slices = offsets.elements() - 1;
  const double* offset = offsets.as<double>();
  double* sums = thread_scratch<double, SliceSums>(slices);
  with_type(gradients, [&]<class T>(T) {
    pool_.for_each(slices, [&](std::int64_t i) {
      const auto begin = static_cast<std::int64_t>(offset[i]), end = static_cast<std::int64_t>(offset[i + 1]);
      sums[i] = sum_of_squares(gradients.as<T>() + begin, end - begin);
    });
    double sum = 0.0;
    for (std::int64_t i = 0; i < slices; ++i) {
      norms.as<T>()[i] = static_cast<T>(std::sqrt(sums[i]));
      sum += sums[i];
    }
    *total.as<T>() = static_cast<T>(std::sqrt(sum));
  });
}

void CpuBackend::adamw(const AdamwTensors& tensors) {
  with_type(tensors.weights, [&]<class T>(T) {
    const T norm = *tensors.gradient_norm.as<T>();
    if (!std::isfinite(norm)) return;
    const std::int32_t step = ++*tensors.step.as<std::int32_t>();
    const AdamwStep<T> adamw(tensors.hyperparameters.as<double>(), step, static_cast<double>(norm));
    const std::uint8_t* decay = tensors.decay_mask.as<std::uint8_t>();
    pool_.for_ranges(tensors.weights.elements(), 128 * parameter_block, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; i += parameter_block)
        adamw.update(tensors.weights.as<T>() + i, tensors.gradients.as<T>() + i, tensors.first_moment.as<T>() + i,
                     tensors.second_moment.as<T>() + i, std::min(parameter_block, end - i),
                     decay[i / parameter_block] != 0);
    });
  });
}

std::int64_t CpuBackend::first_non_finite(const Tensor& x) {
  if (x.dtype != DType::f32 && x.dtype != DType::f64) return -1;
  return with_type(x, [&]<class T>(T) -> std::int64_t {
    for (std::int64_t r = 0; r < x.rows(); ++r) {
      const ArrayMap<T> row = whole_row<T>(x, r);
      if ((row * T{0}).sum() == T{0}) continue;  // infinity and NaN times zero give NaN
      for (std::int64_t c = 0; c < x.columns(); ++c) {
        if (!std::isfinite(row[c])) return r * x.columns() + c;
      }
    }
    return -1;
  });
}

}  // namespace afterglow
