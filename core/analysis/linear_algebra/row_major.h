// Dense matrices whose rows lie one after the other, as lists of numbers hold them.
#pragma once
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "core/analysis/linear_algebra/singular_values.h"

namespace afterglow {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using RowMajorView = Eigen::Map<const RowMajor>;

inline RowMajor matrix_of(const std::vector<double>& numbers, std::int64_t rows, std::int64_t columns) {
  return RowMajorView(numbers.data(), rows, columns);
}
inline std::vector<double> stored(const RowMajor& matrix) { return {matrix.data(), matrix.data() + matrix.size()}; }

inline double spectral_norm(const RowMajor& A) {
  return spectral_norm({A.data(), static_cast<std::size_t>(A.size())}, static_cast<int>(A.rows()),
                       static_cast<int>(A.cols()));
}

inline bool all_finite(std::span<const double> values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

}  // namespace afterglow
