// Inputs, saved values and gradients of the core of Gated KalmaNet: token by token the ridge system
// (H_t + lambda_t I) x_t = q_t, solved by a Chebyshev iteration, and the readout from the memory U_t.
#pragma once
#include "core/tensor/tensor.h"

namespace afterglow {

/// Switches of the core (GKA 4.1, algorithm 1; there omega_0 = 0 is a misprint for 2).
struct ChebyshevConfig {
  int iterations = 30;      ///< r, products with H_t
  double ridge = 0.02;      ///< a: lambda_t = a |H_t|_F
  double fixed_lambda = 0;  ///< > 0 takes the place of the adaptive lambda_t
  bool lambda_grad = true;  ///< whether the gradient follows lambda_t = a |H_t|_F into H_t
  bool decay_keys = true;   ///< whether the gate acts on H_t too, or only on U_t
  double scale = 1.0;       ///< factor of the readout
  double alpha = 1.0;       ///< weight of the solution against q where no `alpha` is given
  double gate_floor = 0.0;  ///< smallest e^g; 0 leaves the gate as it is
  std::int64_t chunk = 64;  ///< C, tokens solved together, at most 64 of them; changes rounding only
  static constexpr std::int64_t max_chunk = 64;
  std::int64_t piece() const { return chunk < max_chunk ? chunk : max_chunk; }
  std::int64_t chunks(std::int64_t tokens) const { return (tokens + piece() - 1) / piece(); }
};

/// q, k, v [B,T,H,D], q and k already normalised and gated; log gate g <= 0 [B,T,H] or undefined for no decay; alpha
/// [B,T,H] or undefined. Where the plan says so, q, k and v may be bfloat16.
/// H_t = e^g H_{t-1} + k k^T, S_t = e^g S_{t-1} + k v^T (U_t = S_t^T), p = q + alpha (x - q), y = scale S_t^T p.
struct ChebyshevInputs {
  Tensor q, k, v, g, alpha;
};

/// What the forward pass keeps: lambda_t and |H_t|_F [B,T,H], the solution x [B,T,H,D], and in H, S [B,H,N,D,D]
/// (undefined in a step) the states before each chunk, in whatever form the back end reads them again.
struct ChebyshevSaved {
  Tensor lambda, fro, x, H, S;
};

/// In the order in which they are written.
struct ChebyshevGrads {
  Grad q, alpha, k, v, g;
};

/// The memory of the recurrent form: H, S [B,H,D,D].
struct ChebyshevState {
  Tensor H, S;
};

}  // namespace afterglow
