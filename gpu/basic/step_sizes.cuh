// Step sizes of scans, softplus(x + bias) within a range, and their gradient: for the kernels that find nothing else
// and for those that find them beside a convolution.
#pragma once
#include <cmath>
#include <limits>

#include "core/backend/kernels.h"
#include "gpu/device/device.cuh"

namespace afterglow::device {

/// T: as what x is stored.
template <class T>
struct StepSize {
  Rows<T> x;
  const float* bias;
  float least, most;

  explicit StepSize(const StepSizes& steps)
      : x(rows_of<T>(steps.x)),
        bias(steps.bias.as<float>()),
        least(static_cast<float>(steps.range.least)),
        most(static_cast<float>(steps.range.most)) {}
  __device__ float operator()(unsigned i) const {
    return fminf(fmaxf(softplus(static_cast<float>(x[i]) + bias[i % x.columns]), least), most);
  }
};

/// The gradient at x + bias from that at the step size.
template <class T>
struct StepSlope {
  Rows<T> x;
  Rows<float> dy;
  const float* bias;
  float least, most;  // the sums between which no end binds: softplus grows with them

  StepSlope(const StepSizes& steps, const Tensor& upstream)
      : x(rows_of<T>(steps.x)), dy(rows_of(upstream)), bias(steps.bias.as<float>()) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    constexpr double most_of_expm1 = 40.0;  // softplus is the identity beyond, and e^x may be no number
    const auto sum_of = [](double step) { return step > most_of_expm1 ? step : std::log(std::expm1(step)); };
    least = static_cast<float>(steps.range.least > 0.0 ? sum_of(steps.range.least) : -infinity);
    most = static_cast<float>(sum_of(steps.range.most));
  }
  __device__ float operator()(unsigned row, unsigned column) const {
    const float sum = static_cast<float>(x.at(row, column)) + bias[column];
    const float gradient = dy.at(row, column) * sigmoid(sum);
    return sum < least || sum > most ? 0.0f : gradient;
  }
  __device__ void put(unsigned i, const SinkOf<T>& to) const {
    const unsigned row = i / x.columns, column = i % x.columns;
    to.put(row, column, (*this)(row, column));
  }
};

}  // namespace afterglow::device
