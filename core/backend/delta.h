// The delta-rule family as one recurrence: a matrix S [K,P] for each head that is read, corrected and faded.
//
//     S' = diag(exp g_t) S_{t-1}
//     S_t = S' + beta_t k_t (v_t - S'^T k_t)^T      with beta: the (gated) delta rule
//     S_t = S' + k_t v_t^T                          without: (gated) linear attention
//     y_t = scale S_t^T q_t
//
// beta alone is DeltaNet, with one g a head gated DeltaNet (GKA, eq. GDN), with one g a channel Kimi Delta Attention;
// g a channel without beta is GLA.
#pragma once
#include "core/tensor/tensor.h"

namespace afterglow {

/// q, k [B,T,H,K], v [B,T,H,P]; beta [B,T,H] or undefined; g, logarithms of the decay, [B,T,H] or [B,T,H,K] or
/// undefined for no decay. Contiguous.
struct DeltaInputs {
  Tensor q, k, v, beta, g;
  double scale = 1.0;
  Tensor kept = {};  ///< what the forward pass leaves for the backward pass, or undefined: it is found again
};

/// In the order in which they are written.
struct DeltaGrads {
  Grad v, q, k, beta, g;
};

}  // namespace afterglow
