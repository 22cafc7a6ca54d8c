// The recorded path of training, decomposed by both strategies.
#include "core/engine/training/trajectory.h"

#include <algorithm>
#include <cmath>

#include "core/analysis/kl_decompose.h"

namespace afterglow {

namespace {

constexpr int max_eigenvalues = 32, max_modes = 8, max_coordinates = 3;
constexpr double kernel_rows = 64.0;  // tau of strategy B

TrajectoryModes modes_of(std::string strategy, const KlDecomposition& kl, std::span<const double> rows) {
  TrajectoryModes result;
  result.strategy = std::move(strategy);
  result.eigenvalues = kl.eigenvalues;
  result.reconstruction_error = kl_reconstruction_errors(kl, rows);
  for (int k = 0; k < std::min(max_modes, kl.count); ++k) {
    std::vector<double>& mode = result.modes.emplace_back();
    for (int t = 0; t < kl.rows; ++t) mode.push_back(kl.modes[static_cast<std::size_t>(t) * kl.count + k]);
  }
  return result;
}

}  // namespace

Trajectory::Trajectory(std::int64_t planned)
    : interval_(std::max<std::int64_t>(1, (planned + max_rows - 1) / max_rows)) {}

void Trajectory::record(std::int64_t step, std::span<const double> summary) {
  if (step % interval_ != 0) return;
  // A run that is prolonged keeps the newest rows.
  if (steps_.size() >= max_rows) {
    steps_.erase(steps_.begin());
    rows_.erase(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(summary.size()));
  }
  steps_.push_back(step);
  rows_.insert(rows_.end(), summary.begin(), summary.end());
}

void Trajectory::truncate(std::int64_t step) {
  const auto width = steps_.empty() ? 0 : rows_.size() / steps_.size();
  while (!steps_.empty() && steps_.back() > step) steps_.pop_back();
  rows_.resize(steps_.size() * width);
}

std::shared_ptr<const TrajectoryView> Trajectory::view(const std::string& summary) const {
  auto view = std::make_shared<TrajectoryView>();
  view->step = last_step();
  view->summary = summary;
  view->steps = steps_;
  const int rows = static_cast<int>(steps_.size());
  if (rows < 2) return view;
  view->width = static_cast<int>(rows_.size()) / rows;
  KlConfig config;
  config.components = std::min(max_eigenvalues, rows);
  const KlDecomposition empirical = kl_decompose(config, rows_, rows, view->width);
  if (empirical.count == 0) return view;
  view->empirical = modes_of("A: covariance", empirical, rows_);
  config.strategy = KlStrategy::kernel;
  config.tau = kernel_rows;
  view->kernel = modes_of("B: exponential kernel, τ 64 rows", kl_decompose(config, rows_, rows, view->width), rows_);
  view->variance = empirical.variance;
  view->explained = kl_explained_variance(empirical);
  for (int k = 0; k < std::min({max_coordinates, empirical.count, view->width}); ++k) {
    std::vector<double> coordinate = view->empirical.modes[static_cast<std::size_t>(k)];
    for (double& value : coordinate) value *= std::sqrt(rows * empirical.eigenvalues[static_cast<std::size_t>(k)]);
    view->path.push_back(std::move(coordinate));
  }
  return view;
}

}  // namespace afterglow
