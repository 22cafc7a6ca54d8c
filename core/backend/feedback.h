// Inputs, saved values and gradients of Sessa's feedback solve (Sessa 3.2).
#pragma once
#include "core/tensor/tensor.h"

namespace afterglow {

/// The unit lower triangular system (I - B_fb) s = f with B_fb[t,j] = gamma_t alpha[t,j], alpha[t,.] the softmax over
/// j < t of scale q_t . k_j (row 0 is zero; Sessa eq. 17 to 20): s_t = f_t + gamma_t sum_{j<t} alpha[t,j] s_j.
/// q, k [B,T,D], rows may be strided; gamma [B,T] in (-1, 1); f [B,T,F]: all features share the matrix.
struct FeedbackInputs {
  Tensor q, k, gamma, f;
  double scale = 1.0;
};

/// What the forward pass keeps for the gradient, linear in T.
struct FeedbackSaved {
  Tensor routed;     ///< [B,T,F]: sum_{j<t} alpha[t,j] s_j
  Tensor log_sum;    ///< [B,T]: logarithm of the softmax's denominator; 0 in row 0
  Tensor workspace;  ///< [Plan::workspace], in a layout of the back end's own
};

/// Of f it is the solution of the transposed system itself.
struct FeedbackGrads {
  Grad q, k, gamma;
};

}  // namespace afterglow
