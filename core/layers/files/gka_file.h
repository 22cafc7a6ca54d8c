// Gated KalmaNet from a file: the layer, and the answer of an exact solver to compare with.
#pragma once
#include "core/layers/files/file_run.h"

namespace afterglow {

/// SideStream the layer's own captures: `kappa` [B,T,H], the condition numbers of H_t + lambda_t I; for the first head
/// of the first sequence `residual_cheb`, `residual_gd`, `residual_agd`, `residual_cg` [T, num_iter + 1], in float64
/// (those of conjugate gradient enlarge the rounding of their sums where they are about to end); and, in a float64 run,
/// `y_exact` and, given `grad_y`, `grad_x_exact`, with so many iterations that nothing is left to solve and the
/// gradient through lambda whatever `bp_lambda` says.
FileKind gka_file_kind();

}  // namespace afterglow
