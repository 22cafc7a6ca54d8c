// What the selective scans take: Mamba-2, linear attention, GLA and Mamba-3's trapezoidal rule; and Mamba-1.
#pragma once
#include "core/tensor/tensor.h"

namespace afterglow {

/// Inputs of the selective scan h_t = exp(log_decay_t) h_{t-1} + dt_t x_t B_t^T, y_t = h_t C_t + D x_t, with
/// log_decay_t = -exp(A_log) dt_t. x [B,T,H,P]; B, C [B,T,G,N] with G dividing H (head h uses group h / (H/G));
/// dt [B,T,H] (already positive) or undefined for 1; A_log [H] or undefined for no decay; D [H] or undefined for 0.
/// Mamba-3's trapezoidal rule gives log_decay [B,T,H] itself, instead of A_log, and a second weight lag [B,T,H] with
/// which the token before enters: h_t = exp(log_decay_t) (h_{t-1} + lag_t x_{t-1} B_{t-1}^T) + dt_t x_t B_t^T. The
/// first token has no predecessor, so lag_0 has no effect. Rows of x, B, C, dt, log_decay, lag may be strided: their
/// strides from token to token are row strides of views [B,T,H*P], [B,T,G*N], [B,T,H].
struct ScanInputs {
  Tensor x, dt, A_log, B, C, D;
  int heads = 1, groups = 1;
  Tensor log_decay, lag;
};
/// In the order in which they are written.
struct ScanGrads {
  Grad x, dt, log_decay, lag, B, C, A_log, D;
};

/// Mamba-1's scan, in which each channel c has N states that fade by themselves:
/// h_t[c,n] = exp(-exp(A_log[c,n]) dt_t[c]) h_{t-1}[c,n] + dt_t[c] x_t[c] B_t[n], y_t[c] = sum_n C_t[n] h_t[c,n] + D[c]
/// x_t[c]. x, dt [B,T,c], B, C [B,T,N], rows may be strided; A_log [c,N], D [c].
struct ChannelScanInputs {
  Tensor x, dt, A_log, B, C, D;
};
/// In the order in which they are written.
struct ChannelScanGrads {
  Grad x, dt, B, C, A_log, D;
};

}  // namespace afterglow
