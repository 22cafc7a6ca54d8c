// The core of the Koopman MLP as one operation.
#include "core/ops/check.h"
#include "core/ops/ops.h"

namespace afterglow {

Var koopman_modes(Tape& tape, const Var& lifted, const Var& gamma, const Var& omega, const Var& gate) {
  const DType stored = lifted.value.dtype;
  const Check check(tape, "koopman_modes", widened(stored));
  check.tensor("lifted", lifted.value, lifted.shape(), stored);
  const std::int64_t columns = lifted.shape().last();
  check.that(lifted.value.elements() > 0 && columns % 2 == 0, "the last axis must hold pairs");
  check.tensor("gamma", gamma.value, {columns / 2});
  check.tensor("omega", omega.value, {columns / 2});
  if (gate.defined()) check.tensor("gate", gate.value, lifted.shape(), stored);
  Var z = tape.result(lifted.shape(), stored, {lifted, gamma, omega, gate});
  tape.make_room_for_rounded(z, false);
  tape.backend().koopman_modes(lifted.value, gamma.value, omega.value, gate.value, z.value, z.rounded);
  return check.recorded(z, [lifted, gamma, omega, gate, z](Tape& t) {
    // Asked for in the order in which the kernel writes them.
    const Grad dgate = t.gradient(gate), dlifted = t.gradient(lifted), dgamma = t.gradient(gamma),
               domega = t.gradient(omega);
    t.backend().koopman_modes_backward(lifted.value, gamma.value, omega.value, gate.value, t.upstream(z), dlifted,
                                       dgamma, domega, dgate);
  });
}

}  // namespace afterglow
