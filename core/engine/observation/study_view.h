// Results of a study of solvers as plain values for figures: curves over the iterations with their problems, and
// changes of a kernel's eigenvalues (KlLimit).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/analysis/linear_algebra/toeplitz_eigen.h"
#include "core/analysis/solvers/solvers.h"

namespace afterglow {

struct StudySize {
  int batch = 2, tokens = 96, heads = 2, width = 16;  ///< B, T, H, D
  int layers = 5, vocabulary = 64;                    ///< of the network, whose width is H D and whose batch is 1
  int iterations = 30;
};

struct StudyCurve {
  std::string name;
  SolverKind solver = SolverKind::chebyshev;
  bool is_dashed = false;
  std::vector<double> x, y;
};

struct StudyView {
  StudySize size;
  bool is_network = false;  ///< of a network's weights instead of one layer's keys and queries
  Arithmetic arithmetic = Arithmetic::fp32;
  std::uint64_t seed = 7;
  std::vector<StudyCurve> curves;
};

}  // namespace afterglow
