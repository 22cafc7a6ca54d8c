// Step sizes of scans, softplus(x + bias) within a range, and their gradient; used alone and in the kernels of a
// convolution.
#pragma once
#include <cmath>
#include <limits>

#include "core/backend/kernels.h"
#include "gpu/tile/device.cuh"

namespace afterglow::device {

/// T is the stored type of x.
template <class T>
struct StepSize {
  Rows<T> x;
  const float* bias = nullptr;
  float min_step = 0, max_step = 0;

  StepSize() = default;
  explicit StepSize(const StepSizes& steps)
      : x(rows_of<T>(steps.x)),
        bias(steps.bias.as<float>()),
        min_step(float(steps.range.least)),
        max_step(float(steps.range.most)) {}
  __device__ float operator()(unsigned i) const { return of(float(x[i]), i % x.columns); }
  __device__ float of(float number, unsigned column) const {
    return fminf(fmaxf(softplus(number + bias[column]), min_step), max_step);
  }
};

/// The gradient at x + bias from that of the step size.
template <class T>
struct StepSlope {
  Rows<T> x;
  Rows<float> dy;
  const float* bias;
  float min_sum, max_sum;  // range of x + bias in which the step size is not clamped: softplus is increasing

  StepSlope(const StepSizes& steps, const Tensor& upstream)
      : x(rows_of<T>(steps.x)), dy(rows_of(upstream)), bias(steps.bias.as<float>()) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    constexpr double max_of_expm1 = 40.0;  // beyond, softplus is the identity and e^x may overflow
    const auto sum_of = [](double step) { return step > max_of_expm1 ? step : std::log(std::expm1(step)); };
    min_sum = float(steps.range.least > 0.0 ? sum_of(steps.range.least) : -infinity);
    max_sum = float(sum_of(steps.range.most));
  }
  __device__ float operator()(unsigned row, unsigned column) const {
    const float sum = float(x.at(row, column)) + bias[column];
    const float gradient = dy.at(row, column) * sigmoid(sum);
    return sum < min_sum || sum > max_sum ? 0.0f : gradient;
  }
};

// The work of one number, as the body of `map` or in a row of blocks of another kernel.
template <class T>
struct PutSizes {
  StepSize<T> size;
  Rows<float> to;
  __device__ void operator()(unsigned i) const { to[i] = size(i); }
};
template <class T>
struct PutSlopes {
  StepSlope<T> slope;
  SinkOf<T> to;
  __device__ void operator()(unsigned i) const {
    const unsigned row = i / slope.x.columns, column = i % slope.x.columns;
    to.put(row, column, slope(row, column));
  }
};

}  // namespace afterglow::device
