// Norm and gate of heads, one operation where there is a gate.
#include "core/layers/normed_heads.h"

namespace afterglow {

Var normed_heads(Tape& tape, const Var& heads, const Var& weight, const Var& gate, double eps) {
  if (gate.defined()) tape.place("gate", gate);
  const Var y = gate.defined() ? gated_heads(tape, heads, gate, weight, eps) : rms_norm(tape, heads, weight, eps);
  const Shape& s = y.shape();
  return tape.reshape(y, {s[0], s[1], s[2] * s[3]});
}

}  // namespace afterglow
