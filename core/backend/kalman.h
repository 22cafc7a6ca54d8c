// The exact Kalman recursion of a static memory: recursive least squares with weights, one token after another.
//
//     S_t = argmin lambda |S|^2 + sum_{s <= t} w_s |S^T k_s - v_s|^2        (GKA eq. 3)
//     y_t = S_t^T q_t
//
// by gain and covariance (GKA eq. KF and 16): G = w Phi k / (1 + w k^T Phi k), S += G (v - S^T k)^T, Phi -= G k^T Phi,
// from S = 0, Phi = I / lambda. The gradient is that of the ridge solution: with x_t = Phi_t q_t and r_t = S_t dy_t,
//     dq_t = r_t      A_t = -sum_{s >= t} r_s x_s^T      D_t = sum_{s >= t} x_s dy_s^T
//     dk_t = w_t ((A_t + A_t^T) k_t + D_t v_t)      dv_t = w_t D_t^T k_t      dw_t = k_t^T A_t k_t + k_t^T D_t v_t
#pragma once
#include "core/tensor/tensor.h"

namespace afterglow {

/// q, k [B,T,H,K], v [B,T,H,P]; weight [B,T,H], >= 0, or undefined for 1; ridge is lambda > 0. Contiguous.
struct KalmanInputs {
  Tensor q, k, v, weight;
  double ridge = 1.0;
};

/// covariance [B,H,K,K] is Phi, memory [B,H,K,P] is S; undefined: not asked for.
struct KalmanState {
  Tensor covariance, memory;
};

/// In the order in which they are written.
struct KalmanGrads {
  Grad q, k, v, weight;
};

}  // namespace afterglow
