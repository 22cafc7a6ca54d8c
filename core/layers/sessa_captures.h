// What the feedback solve of Sessa never holds: its weights and its Jacobian, computed on the host for captures.
#pragma once
#include "core/autograd/tape.h"

namespace afterglow {

/// Sequences up to this length have their solve Jacobian captured: it costs T^3 / 6 multiplications a sequence.
inline constexpr std::int64_t longest_captured_jacobian = 1024;

/// Captures `alpha_fb` [B,T,T], `gamma` [B,T] and `solve_jacobian` [B,T,T]. q, k [B,T,D], rows may be strided; gamma
/// [B,T].
void capture_feedback(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& gamma, double scale);

}  // namespace afterglow
