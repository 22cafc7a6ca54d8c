// Start values of parameters.
#include <Eigen/QR>
#include <algorithm>
#include <cmath>

#include "core/autograd/parameter.h"
#include "core/random/random.h"

namespace afterglow {
namespace {

constexpr int words_of_uniform = 2, words_of_normal = 4;

/// Draws every value independently.
template <class Draw>
Initialiser each(Draw draw, int words = words_of_uniform) {
  return {[draw](Random& random, const Shape&, std::span<double> values) {
            for (double& value : values) value = draw(random);
          },
          words};
}

double between(Random& random, double low, double high) { return low + (high - low) * random.uniform(); }

}  // namespace

Initialiser zeros() { return constant(0.0); }

Initialiser constant(double value) {
  return {[value](Random&, const Shape&, std::span<double> values) { std::ranges::fill(values, value); }};
}

Initialiser fan_in_uniform() {
  return {[](Random& random, const Shape& shape, std::span<double> values) {
            const std::int64_t fan_in = shape.rank() > 0 && shape[0] > 0 ? shape.elements() / shape[0] : 1;
            const double bound = 1.0 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, fan_in)));
            for (double& value : values) value = between(random, -bound, bound);
          },
          words_of_uniform};
}

Initialiser normal(double standard_deviation) {
  return each([standard_deviation](Random& random) { return standard_deviation * random.normal(); }, words_of_normal);
}

Initialiser orthogonal() {
  return {[](Random& random, const Shape& shape, std::span<double> values) {
    const std::int64_t rows = shape.rank() > 0 ? shape[0] : 1,
                       columns = shape.elements() / std::max<std::int64_t>(1, rows);
    const std::int64_t longer = std::max(rows, columns), shorter = std::min(rows, columns);
    Eigen::MatrixXd gaussian(longer, shorter);
    for (double& value : gaussian.reshaped()) value = random.normal();
    const Eigen::HouseholderQR<Eigen::MatrixXd> qr(gaussian);
    Eigen::MatrixXd q = qr.householderQ() * Eigen::MatrixXd::Identity(longer, shorter);
    // With the diagonal of R positive, Q is uniformly distributed.
    for (std::int64_t i = 0; i < shorter; ++i) {
      if (qr.matrixQR()(i, i) < 0.0) q.col(i) = -q.col(i);
    }
    Eigen::Map<Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> out(values.data(), rows,
                                                                                           columns);
    if (rows >= columns) {
      out = q;
    } else {
      out = q.transpose();
    }
  }};
}

Initialiser uniform(double low, double high) {
  return each([low, high](Random& random) { return between(random, low, high); });
}

Initialiser log_of_uniform(double low, double high) {
  return each([low, high](Random& random) { return std::log(between(random, low, high)); });
}

Initialiser time_step_bias(double low, double high) {
  return each([low, high](Random& random) {
    const double step = std::exp(between(random, std::log(low), std::log(high)));
    return step + std::log(-std::expm1(-step));
  });
}

}  // namespace afterglow
