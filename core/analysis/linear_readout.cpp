// In the dual: a state has more numbers than there are samples.
#include "core/analysis/linear_readout.h"

#include <Eigen/Dense>
#include <limits>

#include "core/analysis/linear_algebra/decompositions.h"

namespace afterglow {
namespace {

/// One column for each list and choice: 1 where the sample has it, less the mean.
RowMajor targets_of(std::span<const std::vector<int>> labels, int fitted, int choices) {
  RowMajor y = RowMajor::Zero(fitted, static_cast<Eigen::Index>(labels.size()) * choices);
  for (std::size_t list = 0; list < labels.size(); ++list) {
    for (int i = 0; i < fitted; ++i)
      y(i, static_cast<Eigen::Index>(list) * choices + labels[list][static_cast<std::size_t>(i)]) = 1;
  }
  return y.rowwise() - y.colwise().mean();
}

}  // namespace

std::vector<double> readout_accuracies(std::span<const double> features, int samples, int fitted,
                                       std::span<const std::vector<int>> labels, int choices, double ridge) {
  if (samples <= fitted || fitted < 2 || choices < 2 || features.empty() ||
      features.size() % static_cast<std::size_t>(samples) != 0)
    return {};
  for (const std::vector<int>& list : labels) {
    if (static_cast<int>(list.size()) != samples) return {};
  }
  const auto width = static_cast<Eigen::Index>(features.size() / static_cast<std::size_t>(samples));
  RowMajor x = RowMajorView(features.data(), samples, width);
  if (!x.allFinite()) return std::vector<double>(labels.size(), std::numeric_limits<double>::quiet_NaN());
  const Eigen::RowVectorXd mean = x.topRows(fitted).colwise().mean();
  x.rowwise() -= mean;
  const RowMajor kernel = x * x.topRows(fitted).transpose();
  RowMajor system = kernel.topRows(fitted);
  const double scale = system.trace() / fitted;
  system.diagonal().array() += ridge * scale + std::numeric_limits<double>::min();
  const RowMajor weights = system.ldlt().solve(targets_of(labels, fitted, choices));
  const RowMajor answers = kernel.bottomRows(samples - fitted) * weights;
  std::vector<double> accuracies;
  for (std::size_t list = 0; list < labels.size(); ++list) {
    int right = 0;
    for (int i = fitted; i < samples; ++i) {
      Eigen::Index best = 0;
      answers.row(i - fitted).segment(static_cast<Eigen::Index>(list) * choices, choices).maxCoeff(&best);
      right += best == labels[list][static_cast<std::size_t>(i)] ? 1 : 0;
    }
    accuracies.push_back(static_cast<double>(right) / (samples - fitted));
  }
  return accuracies;
}

}  // namespace afterglow
