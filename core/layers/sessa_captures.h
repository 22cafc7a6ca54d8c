// Weights and Jacobian of Sessa's feedback solve, which the kernel never stores: computed on the host for captures.
#pragma once
#include "core/autograd/tape.h"

namespace afterglow {

/// Longest sequence whose solve Jacobian is captured: it costs T^3 / 6 multiplications per sequence.
inline constexpr std::int64_t longest_captured_jacobian = 1024;

/// Captures `alpha_fb` [B,T,T], `gamma` [B,T] and `solve_jacobian` [B,T,T]. q, k [B,T,D], rows may be strided; gamma
/// [B,T].
void capture_feedback(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& gamma, double scale);

}  // namespace afterglow
