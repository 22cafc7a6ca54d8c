// How delta rules and Gated KalmaNet answer from their heads.
#pragma once
#include "core/ops/ops.h"

namespace afterglow {

/// Heads [B,T,H,P], each divided by its root mean square, times `weight` [P] and, where `gate` [B,T,H P] is defined,
/// silu(gate), side by side: [B,T,H P]. The gate is a place of the layer.
Var normed_heads(Tape& tape, const Var& heads, const Var& weight, const Var& gate, double eps);

}  // namespace afterglow
