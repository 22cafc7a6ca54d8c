// The trajectory of training in its Karhunen-Loève modes, for every model: one summary vector at fixed steps,
// decomposed.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace afterglow {

/// One choice of temporal modes (Spectral Memory 3.3) for the trajectory of T rows.
struct TrajectoryModes {
  std::string strategy;  ///< "A: covariance" or "B: exponential kernel, τ 64 rows"
  std::vector<double>
      eigenvalues;  ///< descending, at most 32; for strategy B those of the kernel, not of the trajectory
  /// The first modes, at most 8, each of T numbers with unit norm: entry t belongs to TrajectoryView::steps[t].
  std::vector<std::vector<double>> modes;
  /// Entry k: |Hc - its projection onto the first k modes|_F / |Hc|_F, from 1 at k = 0 down; one entry more than
  /// eigenvalues. Strategy A is optimal for every k.
  std::vector<double> reconstruction_error;
};

/// Empty while fewer than two rows are recorded (`steps` shorter than 2).
struct TrajectoryView {
  static constexpr std::int64_t max_steps = 256;  ///< recorded in a training, evenly spaced
  std::int64_t step = 0;                          ///< training step of the last row
  std::string summary;  ///< what a row is: "mean last state of a batch's answers", "pooled summary of a batch"
  int width = 0;        ///< d, numbers in a row
  std::vector<std::int64_t> steps;  ///< T recorded training steps, ascending, at most max_steps
  TrajectoryModes empirical;        ///< strategy A
  TrajectoryModes kernel;           ///< strategy B
  double variance = 0;              ///< |Hc|_F^2 / T: the sum of all eigenvalues of strategy A
  /// Entry k - 1: share of the variance in the first k modes of strategy A, 0 to 1; as long as empirical.eigenvalues.
  std::vector<double> explained;
  /// The trajectory in the first three modes of strategy A (fewer if T or d is smaller): path[k][t] is the coordinate
  /// of row t along the feature direction of mode k, sqrt(T eigenvalue_k) mode_k[t], in the units of the summary.
  std::vector<std::vector<double>> path;
};

}  // namespace afterglow
