// How a gradient may grow or fade from the last layer down to the first (Echo propositions J.7, J.8 and theorem J.9).
#pragma once
#include <span>
#include <vector>

namespace afterglow {

/// sup |SiLU'(x)|, attained at x = 2.39935728.
inline constexpr double silu_slope_bound = 1.0998393201288670;

/// Proposition J.8 for a Koopman MLP without gate: c_SiLU |W_read| radius |W_lift|, with W_read [d*dk], W_lift [dk*d].
/// `radius` is the largest modulus of its modes (J.7); the paper takes 1. NaN when a size is wrong or a number is not
/// finite.
double koopman_mlp_bound(std::span<const double> readout, std::span<const double> lift, int d, int dk,
                         double radius = 1.0);

/// Norm of the Jacobian of w x / sqrt(mean(x^2) + eps), from above: max |w| / sqrt(mean(x^2) + eps). A pre-norm branch
/// is norm and mixer, so its Jacobian is at most this times the mixer's. NaN when the sizes differ or x is empty.
double rms_norm_bound(std::span<const double> weight, std::span<const double> x, double eps);

/// Norm of W_o diag(J_1, .., J_H) W_q, from above: |W_o| max |J_h| |W_q|, with W_o [d*HP], W_q [Hr*d] and a bound on
/// each |J_h| by its projected query (J.2 or J.4). By so much at most a mixer lengthens a gradient on the way through
/// its queries, its keys, values and statistics held fixed. NaN when a size is wrong or a number is not finite.
double query_path_bound(std::span<const double> output, std::span<const double> query, int d,
                        std::span<const double> head_bounds);

/// Bounds on |g_l|, l = 0 .. m, from the norms (or bounds) of the m branch Jacobians; g_m is the gradient at the head's
/// input, g_0 the one at the embedding.
struct DepthBounds {
  /// Theorem J.9 as printed: |g_head| prod_{j > l} |J_j|. It follows the branches alone. A layer x + branch(x) passes
  /// its gradient by the residual, too, so this is no bound on the gradient of a residual model.
  std::vector<double> branches;
  /// |g_head| prod_{j > l} (1 + |J_j|): the residual added back, as the paper's introduction to appendix J asks for.
  std::vector<double> residual;
  /// |g_head| prod_{j > l} max(0, 1 - |J_j|): no gradient of a residual model falls below.
  std::vector<double> residual_floor;
};
/// `branch_norms` [m], lowest layer first. Mind what goes in: J.2 and J.4 (query_path_bound) hold keys, values and
/// statistics fixed, so their products bound the share of the gradient that passes the queries; for the whole gradient
/// of a model take measured norms of its branches. A norm that is negative or NaN makes the bounds below its layer NaN.
DepthBounds depth_bounds(std::span<const double> branch_norms, double head_gradient);

}  // namespace afterglow
