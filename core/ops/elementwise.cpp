// Elementwise operations and their gradients, among them gates of recurrent layers, and the core of the Koopman MLP.
#include <algorithm>

#include "core/ops/check.h"
#include "core/ops/ops.h"

namespace afterglow {

Var add(Tape& tape, const Var& a, const Var& b) {
  const Check check(tape, "add", a.value.dtype);
  check.tensor("a", a.value, a.shape());
  check.tensor("b", b.value, a.shape());
  const Var y = tape.result(a.shape(), a.value.dtype, {a, b});
  tape.backend().add(a.value, b.value, y.value);
  return check.recorded(y, [a, b, y](Tape& t) {
    const Tensor dy = t.upstream(y);
    t.pass_gradient(a, dy);
    t.pass_gradient(b, dy);
  });
}

Var multiply(Tape& tape, const Var& a, const Var& b) {
  const Check check(tape, "multiply", a.value.dtype);
  check.tensor("a", a.value, a.shape());
  check.rows("b", b.value, a.shape());
  const Var y = tape.result(a.shape(), a.value.dtype, {a, b});
  tape.backend().multiply(a.value, b.value, y.value);
  return check.recorded(y, [a, b, y](Tape& t) {
    const Grad da = t.gradient(a), db = t.gradient(b);
    t.backend().multiply_backward(a.value, b.value, t.upstream(y), da, db);
  });
}

Var scale(Tape& tape, const Var& x, double factor) {
  const Check check(tape, "scale", x.value.dtype);
  check.rows("x", x.value, x.shape());
  const Var y = tape.result(x.shape(), x.value.dtype, {x});
  tape.backend().scale(x.value, factor, {y.value, false});
  return check.recorded(y, [x, y, factor](Tape& t) { t.backend().scale(t.upstream(y), factor, t.gradient(x)); });
}

Var unary(Tape& tape, Unary kind, const Var& x) {
  const Check check(tape, "unary", x.value.dtype);
  check.rows("x", x.value, x.shape());
  const Var y = tape.result(x.shape(), widened(x.value.dtype), {x});
  tape.backend().unary(kind, x.value, y.value);
  return check.recorded(
      y, [kind, x, y](Tape& t) { t.backend().unary_backward(kind, x.value, y.value, t.upstream(y), t.gradient(x)); });
}

Var filled(Tape& tape, const Shape& shape, DType dtype, double value) {
  const Tensor tensor = tape.scratch(shape, dtype);
  tape.backend().fill(tensor, value);
  return tape.constant(tensor);
}

Var shifted(Tape& tape, const Var& x, double by) {
  return add_bias(tape, x, filled(tape, {x.shape().last()}, x.value.dtype, by));
}

Var silu_multiply(Tape& tape, const Var& a, const Var& b) {
  const Check check(tape, "silu_multiply", a.value.dtype);
  check.rows("a", a.value, a.shape());
  check.rows("b", b.value, a.shape());
  const Var y = tape.result(a.shape(), a.value.dtype, {a, b});
  tape.backend().silu_multiply(a.value, b.value, y.value);
  return check.recorded(y, [a, b, y](Tape& t) {
    const Grad da = t.gradient(a), db = t.gradient(b);
    t.backend().silu_multiply_backward(a.value, b.value, t.upstream(y), da, db);
  });
}

Var softplus_bias(Tape& tape, const Var& x, const Var& bias, const StepRange& range) {
  const DType dtype = widened(x.value.dtype);
  const Check check(tape, "softplus_bias", dtype);
  check.rows("x", x.value, x.shape(), x.value.dtype);
  check.tensor("bias", bias.value, {x.shape().last()});
  const Var y = tape.result(x.shape(), dtype, {x, bias});
  tape.backend().softplus_bias(x.value, bias.value, range, y.value);
  return check.recorded(y, [x, bias, range, y](Tape& t) {
    const Grad dx = t.gradient(x), dbias = t.side_stream_gradient(bias);
    t.backend().softplus_bias_backward(x.value, bias.value, range, t.upstream(y), dx, dbias);
  });
}

Var log_sigmoid(Tape& tape, const Var& x, double factor) {
  const Check check(tape, "log_sigmoid", x.value.dtype);
  check.rows("x", x.value, x.shape());
  const Var y = tape.result(x.shape(), x.value.dtype, {x});
  tape.backend().log_sigmoid(x.value, factor, y.value);
  return check.recorded(
      y, [x, factor, y](Tape& t) { t.backend().log_sigmoid_backward(x.value, factor, t.upstream(y), t.gradient(x)); });
}

Var log_decay(Tape& tape, const Var& x, const Var& A_log, const Var& bias) {
  const Check check(tape, "log_decay", x.value.dtype);
  check.rows("x", x.value, x.shape());
  check.tensor("A_log", A_log.value, {Check::any});
  check.that(A_log.value.elements() > 0 && x.shape().last() % A_log.value.elements() == 0,
             "A_log must have as many numbers as divide the columns of x");
  check.tensor("bias", bias.value, {x.shape().last()});
  const Var y = tape.result(x.shape(), x.value.dtype, {x, A_log, bias});
  tape.backend().log_decay(x.value, A_log.value, bias.value, y.value);
  return check.recorded(y, [x, A_log, bias, y](Tape& t) {
    const Grad dx = t.gradient(x), dA_log = t.side_stream_gradient(A_log), dbias = t.side_stream_gradient(bias);
    t.backend().log_decay_backward(x.value, A_log.value, bias.value, t.upstream(y), dx, dA_log, dbias);
  });
}

Var route(Tape& tape, const Var& x, const Tensor& bias, const Router& router) {
  const Check check(tape, "route", x.value.dtype);
  check.tensor("x", x.value, x.shape());
  const std::int64_t experts = x.shape().last();
  if (bias.defined()) check.tensor("bias", bias, {experts});
  check.that(router.groups > 0 && router.groups <= max_router_groups && experts % router.groups == 0,
             "from 1 to 64 groups must divide the number of experts");
  check.that(
      router.chosen > 0 && router.chosen <= std::min(router.groups, router.kept_groups) * (experts / router.groups),
      "as many experts as are chosen must be there");
  const Var y = tape.result(x.shape(), x.value.dtype, {x});
  tape.backend().route(x.value, bias, router, y.value);
  return check.recorded(y, [x, router, y](Tape& t) {
    t.backend().route_backward(x.value, router, y.value, t.upstream(y), t.gradient(x));
  });
}

Var multiply_rows(Tape& tape, const Var& x, const Var& factor, double offset) {
  const DType stored = x.value.dtype;
  const Check check(tape, "multiply_rows", widened(stored));
  check.tensor("x", x.value, x.shape(), stored);
  check.tensor("factor", factor.value, factor.shape());
  check.that(factor.value.elements() == x.value.rows(), "there must be one factor for every row of x");
  const Var y = tape.result(x.shape(), stored, {x, factor});
  tape.backend().multiply_rows(x.value, factor.value, offset, y.value);
  return check.recorded(y, [x, factor, offset, y](Tape& t) {
    const Grad dx = t.gradient(x), dfactor = t.gradient(factor);
    t.backend().multiply_rows_backward(x.value, factor.value, offset, t.upstream(y), dx, dfactor);
  });
}

// The gradient of a factor for every row is such a product, and the product's own gradient is such a multiplication.
Var row_products(Tape& tape, const Var& a, const Var& b) {
  const Check check(tape, "row_products", a.value.dtype);
  check.tensor("a", a.value, a.shape());
  check.tensor("b", b.value, a.shape());
  const Var y = tape.result(a.shape().with_last(1), a.value.dtype, {a, b});
  tape.backend().multiply_rows_backward(a.value, y.value, 0.0, b.value, {}, {y.value, false});
  tape.record("row_products", y, [a, b, y](Tape& t) {
    const std::pair<Var, Var> sides[] = {{a, b}, {b, a}};
    for (const auto& [to, other] : sides) {
      if (!t.wants_gradient(to)) continue;
      const Tensor gradient = t.scratch(to.shape(), to.value.dtype);
      t.backend().multiply_rows(other.value, t.upstream(y), 0.0, gradient);
      t.pass_gradient(to, gradient);
    }
  });
  return y;
}

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
