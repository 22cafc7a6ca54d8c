// Gradient bounds over the depth of a model.
#include "core/analysis/depth_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/analysis/linear_algebra/spectrum.h"

namespace afterglow {
namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

}  // namespace

double koopman_mlp_bound(std::span<const double> readout, std::span<const double> lift, int d, int dk, double radius) {
  return silu_slope_bound * spectral_norm(readout, d, dk) * radius * spectral_norm(lift, dk, d);
}

double rms_norm_bound(std::span<const double> weight, std::span<const double> x, double eps) {
  if (x.empty() || weight.size() != x.size()) return not_a_number;
  double squares = 0.0, largest = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    squares += x[i] * x[i];
    largest = std::max(largest, std::abs(weight[i]));
    if (std::isnan(weight[i])) return not_a_number;
  }
  return largest / std::sqrt(squares / static_cast<double>(x.size()) + eps);
}

double query_path_bound(std::span<const double> output, std::span<const double> query, int d,
                        std::span<const double> head_bounds) {
  const auto width = static_cast<std::size_t>(std::max(d, 1));
  if (head_bounds.empty() || output.size() % width != 0 || query.size() % width != 0) return not_a_number;
  double largest = 0.0;
  for (const double bound : head_bounds) {
    if (!(bound >= 0.0)) return not_a_number;
    largest = std::max(largest, bound);
  }
  return spectral_norm(output, d, static_cast<int>(output.size() / width)) * largest *
         spectral_norm(query, static_cast<int>(query.size() / width), d);
}

DepthBounds depth_bounds(std::span<const double> branch_norms, double head_gradient) {
  const std::size_t layers = branch_norms.size();
  DepthBounds result;
  for (std::vector<double>* curve : {&result.branches, &result.residual, &result.residual_floor})
    curve->assign(layers + 1, head_gradient);
  for (std::size_t l = layers; l-- > 0;) {
    const double norm = branch_norms[l] >= 0.0 ? branch_norms[l] : not_a_number;
    result.branches[l] = result.branches[l + 1] * norm;
    result.residual[l] = result.residual[l + 1] * (1.0 + norm);
    result.residual_floor[l] = result.residual_floor[l + 1] * std::max(1.0 - norm, 0.0);
  }
  return result;
}

}  // namespace afterglow
