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

Var mixed_modes(Tape& tape, const Var& u, const Var& A, const Var& gamma, const Var& omega, Tensor* mixer) {
  const Check check(tape, "mixed_modes", u.value.dtype);
  const std::int64_t columns = u.shape().last();
  check.tensor("u", u.value, u.shape());
  check.tensor("A", A.value, {Check::any, Check::any, A.shape()[1]});
  const std::int64_t blocks = A.shape()[0], width = A.shape()[1];
  check.that(width % 2 == 0 && blocks * width == columns, "the blocks must be even and cover the columns");
  check.tensor("gamma", gamma.value, {columns / 2});
  check.tensor("omega", omega.value, {columns / 2});
  const Tensor Q = tape.scratch(A.shape(), u.value.dtype), W = tape.scratch(A.shape(), u.value.dtype);
  const Var z = tape.result(u.shape(), u.value.dtype, {u, A, gamma, omega});
  tape.backend().mixed_modes(A.value, gamma.value, omega.value, Q, W);
  const auto block = [width](const Tensor& x, std::int64_t i) { return as_matrix(x).column_range(i * width, width); };
  for (std::int64_t i = 0; i < blocks; ++i)
    tape.backend().gemm(false, true, 1.0, block(u.value, i), W.at(i), 0.0, block(z.value, i));
  if (mixer) *mixer = Q;
  tape.record("mixed_modes", z, [=](Tape& t) {
    const Tensor dz = t.upstream(z), dW = t.scratch(W.shape, W.dtype);
    for (std::int64_t i = 0; i < blocks; ++i)
      t.backend().gemm(true, false, 1.0, block(dz, i), block(u.value, i), 0.0, dW.at(i));
    const Grad du = t.gradient(u);
    for (std::int64_t i = 0; i < blocks && du.wanted(); ++i)
      t.backend().gemm(false, false, 1.0, block(dz, i), W.at(i), du.accumulate ? 1.0 : 0.0, block(du.tensor, i));
    const Grad dA = t.gradient(A), dgamma = t.gradient(gamma), domega = t.gradient(omega);
    t.backend().mixed_modes_backward(gamma.value, omega.value, Q, dW, dA, dgamma, domega);
  });
  return z;
}

}  // namespace afterglow
