// Gated KalmaNet from a file: the layer, and the answer of an exact solver to compare with.
#pragma once
#include "core/layers/files/file_run.h"

namespace afterglow {

/// In addition to the layer's captures: `kappa` [B,T,H], the condition numbers of H_t + lambda_t I; for the first head
/// of the first sequence `residual_cheb`, `residual_gd`, `residual_agd`, `residual_cg` [T, num_iter + 1], in float64
/// (those of conjugate gradient amplify the rounding of their sums near convergence); and, in a float64 run, `y_exact`
/// and, given `grad_y`, `grad_x_exact`, with so many iterations that the solve has converged, and with the gradient
/// through lambda for any `bp_lambda`.
FileKind gka_file_kind();

}  // namespace afterglow
