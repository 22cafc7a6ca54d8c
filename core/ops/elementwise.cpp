// Elementwise operations and their gradients.
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

}  // namespace afterglow
