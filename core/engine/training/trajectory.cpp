// The recorded trajectory of training, decomposed by both strategies.
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
  // A prolonged run keeps the newest rows.
  if (rows_.steps.size() >= max_rows) {
    rows_.steps.erase(rows_.steps.begin());
    rows_.values.erase(rows_.values.begin(), rows_.values.begin() + static_cast<std::ptrdiff_t>(summary.size()));
  }
  rows_.steps.push_back(step);
  rows_.values.insert(rows_.values.end(), summary.begin(), summary.end());
}

void Trajectory::truncate(std::int64_t step) {
  if (rows_.steps.empty() || rows_.steps.back() <= step) return;
  const std::size_t width = rows_.values.size() / rows_.steps.size();
  while (!rows_.steps.empty() && rows_.steps.back() > step) rows_.steps.pop_back();
  rows_.values.resize(rows_.steps.size() * width);
}

TrajectoryRows Trajectory::rows(std::int64_t step) const {
  Trajectory known = *this;
  known.truncate(step);
  return known.rows_;
}

std::shared_ptr<const TrajectoryView> Trajectory::view(const std::string& summary, std::int64_t step) const {
  auto view = std::make_shared<TrajectoryView>();
  const TrajectoryRows known = rows(step);
  const std::vector<double>& values = known.values;
  view->step = known.steps.empty() ? 0 : known.steps.back();
  view->summary = summary;
  view->steps = known.steps;
  const int rows = static_cast<int>(known.steps.size());
  if (rows < 2) return view;
  view->width = static_cast<int>(values.size()) / rows;
  KlConfig config;
  config.components = std::min(max_eigenvalues, rows);
  const KlDecomposition empirical = kl_decompose(config, values, rows, view->width);
  if (empirical.count == 0) return view;
  view->empirical = modes_of("A: covariance", empirical, values);
  config.strategy = KlStrategy::kernel;
  config.tau = kernel_rows;
  view->kernel = modes_of("B: exponential kernel, τ 64 rows", kl_decompose(config, values, rows, view->width), values);
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
