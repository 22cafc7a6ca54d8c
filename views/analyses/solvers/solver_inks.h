// One colour for each solver, the same in every figure, and the lower end of their logarithmic axes.
#pragma once
#include "core/engine/analyses/solvers/solver_view.h"
#include "core/figure/figure.h"

namespace afterglow {

constexpr double floor_of_axis = 1e-17;  ///< residuals of exact answers

inline Ink solver_ink(SolverKind kind) {
  switch (kind) {
    case SolverKind::chebyshev:
      return 0;
    case SolverKind::gradient_descent:
      return 5;
    case SolverKind::nesterov:
      return 2;
    case SolverKind::conjugate_gradient:
      return 1;
    case SolverKind::cholesky:
      return 4;
  }
  return Role::faint;
}

}  // namespace afterglow
