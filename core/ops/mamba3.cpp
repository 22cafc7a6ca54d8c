// What Mamba-3 computes around its scan: trapezoidal steps, angles, turned keys and queries.
#include "core/ops/check.h"
#include "core/ops/ops.h"

namespace afterglow {

Var trapezoid_steps(Tape& tape, const Var& x, const Var& bias, const StepFloors& floors) {
  const DType dtype = widened(x.value.dtype);
  const Check check(tape, "trapezoid_steps", dtype);
  const std::int64_t heads = bias.shape().last();
  check.tensor("bias", bias.value, {Check::any});
  check.rows("x", x.value, {Check::any, Check::any, 3 * heads}, x.value.dtype);
  const Var y = tape.result(x.shape().with_last(4 * heads), dtype, {x, bias});
  tape.backend().trapezoid_steps(x.value, bias.value, floors, y.value);
  return check.recorded(y, [x, bias, floors, y](Tape& t) {
    const Grad dx = t.gradient(x), dbias = t.side_stream_gradient(bias);
    t.backend().trapezoid_steps_backward(x.value, bias.value, floors, t.upstream(y), dx, dbias);
  });
}

Var rotary_angles(Tape& tape, const Var& dt, const Var& turn, const Tensor& carry) {
  const Check check(tape, "rotary_angles", dt.value.dtype);
  check.rows("dt", dt.value, {Check::any, Check::any, Check::any});
  const std::int64_t batch = dt.shape()[0], tokens = dt.shape()[1], heads = dt.shape()[2];
  check.rows("turn", turn.value, {batch, tokens, Check::any}, turn.value.dtype);
  check.that(widened(turn.value.dtype) == dt.value.dtype,
             "turn must be of the type of dt, or bfloat16 where dt is float32");
  const std::int64_t pairs = turn.shape().last();
  if (carry.defined()) check.tensor("carry", carry, {batch, heads, pairs});
  const Var theta = tape.result({batch, tokens, heads, pairs}, dt.value.dtype, {dt, turn});
  check.that(!carry.defined() || !tape.wants_gradient(theta),
             "no gradient is kept through a carried sum; begin the tape without recording");
  tape.backend().rotary_angles(dt.value, turn.value, carry, theta.value);
  return check.recorded(theta, [dt, turn, theta](Tape& t) {
    const Grad ddt = t.gradient(dt), dturn = t.gradient(turn);
    const Tensor sums = t.scratch(theta.shape(), theta.value.dtype);
    t.backend().rotary_angles_backward(dt.value, turn.value, t.upstream(theta), sums, ddt, dturn);
  });
}

Var rotate_heads(Tape& tape, const Var& x, const Var& weight, const Var& bias, const Var& theta, double eps) {
  const DType dtype = widened(x.value.dtype);
  const Check check(tape, "rotate_heads", dtype);
  check.rows("x", x.value, {Check::any, Check::any, Check::any}, x.value.dtype);
  const std::int64_t batch = x.shape()[0], tokens = x.shape()[1], states = x.shape()[2], heads = bias.shape()[0];
  check.tensor("weight", weight.value, {states});
  check.tensor("bias", bias.value, {heads, 1, states});
  if (theta.defined()) {
    check.tensor("theta", theta.value, {batch, tokens, heads, Check::any});
    check.that(2 * theta.shape().last() <= states, "more pairs are turned than there are");
  }
  const Var y = tape.result({batch, tokens, heads, states}, x.value.dtype, {x, weight, bias, theta});
  const Tensor inverse = tape.scratch({batch * tokens}, dtype);
  tape.backend().rotate_heads(x.value, weight.value, bias.value, theta.value, eps, y.value, inverse);
  return check.recorded(y, [x, weight, bias, theta, inverse, y](Tape& t) {
    const Grad dx = t.gradient(x), dtheta = t.gradient(theta);
    const Grad dweight = t.side_stream_gradient(weight), dbias = t.side_stream_gradient(bias);
    const Tensor sums = t.scratch(x.shape(), widened(x.value.dtype));
    t.backend().rotate_heads_backward(x.value, weight.value, theta.value, y.value, inverse, t.upstream(y), sums, dx,
                                      dweight, dbias, dtheta);
  });
}

Var pair_squares(Tape& tape, const Var& x, const PairSquares& squares) {
  const Check check(tape, "pair_squares", x.value.dtype);
  check.tensor("x", x.value, x.shape());
  check.that(x.shape().last() % 2 == 0, "pairs need an even number of columns");
  check.that(squares.invariant || squares.harmonics, "nothing is asked for");
  const Var y = tape.result(x.shape().with_last(squares.width(x.shape().last())), x.value.dtype, {x});
  tape.backend().pair_squares(x.value, squares, y.value);
  return check.recorded(y, [x, squares, y](Tape& t) {
    t.backend().pair_squares_backward(x.value, squares, t.upstream(y), t.gradient(x));
  });
}

}  // namespace afterglow
