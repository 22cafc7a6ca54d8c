// One colour for each solver, the same in every figure, and the lower end of their logarithmic axes.
#pragma once
#include "core/engine/analyses/solvers/solver_view.h"
#include "core/figure/figure.h"

namespace afterglow {

constexpr double floor_of_axis = 1e-17;  ///< residuals of exact answers

inline Ink solver_ink(SolverKind kind) {
  constexpr int inks[] = {0, 5, 2, 1, 4};  // in the order of SolverKind
  return inks[static_cast<std::size_t>(kind)];
}

}  // namespace afterglow
