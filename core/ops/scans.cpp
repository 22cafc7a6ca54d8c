// Scans along a sequence with a state, each as one operation: Mamba-1's selective scan; the selective scan that is
// Mamba-2's core, Mamba-3's with the trapezoidal rule, and with dt, A and D absent causal linear attention; the
// delta-rule family; the Kalman recursion. And what Mamba-3 computes around its scan: trapezoidal steps, angles, turned
// keys and queries.
#include "core/backend/delta.h"
#include "core/backend/kalman.h"
#include "core/ops/check.h"
#include "core/ops/ops.h"

namespace afterglow {
namespace {

/// Runs the backward pass that gives y's gradient to these, in the order in which the kernel writes them.
template <class Inputs, class Grads>
void run_backward(Tape& tape, void (Kernels::*kernel)(const Inputs&, const Tensor&, const Tensor&, const Grads&),
                  const Inputs& values, const Var& y, const std::same_as<Var> auto&... wanted) {
  const auto grads = gradients_of<Grads>(tape, wanted...);
  const Tensor workspace = tape.scratch({tape.backend().plan(values).workspace}, widened(y.value.dtype));
  (tape.backend().*kernel)(values, tape.upstream(y), workspace, grads);
}

ChannelScanInputs values_of(const ChannelScanVars& in) {
  return {in.x.value, in.dt.value, in.A_log.value, in.B.value, in.C.value, in.D.value};
}

/// [B,T,H,P] as [B,T,H*P]; a view of columns is three-dimensional already.
Var with_three_axes(Tape& tape, const Var& x) {
  if (x.shape().rank() != 4) return x;
  return tape.reshape(x, {x.shape()[0], x.shape()[1], x.shape()[2] * x.shape()[3]});
}

void check_inputs(Tape& tape, const ScanVars& in) {
  const DType stored = in.x.value.dtype;
  const Check check(tape, "ssd_scan", widened(stored));
  check.that(in.heads > 0 && in.groups > 0 && in.heads % in.groups == 0, "the groups must divide the heads");
  check.rows("x", in.x.value, {Check::any, Check::any, Check::any}, stored);
  const std::int64_t batch = in.x.shape()[0], tokens = in.x.shape()[1];
  check.that(in.x.value.elements() > 0 && in.x.shape()[2] % in.heads == 0, "the heads must divide the columns of x");
  check.rows("B", in.B.value, {batch, tokens, Check::any}, stored);
  check.rows("C", in.C.value, in.B.shape(), stored);
  check.that(in.B.value.elements() > 0 && in.B.shape()[2] % in.groups == 0, "the groups must divide the columns of B");
  if (in.dt.defined()) check.rows("dt", in.dt.value, {batch, tokens, in.heads});
  if (in.A_log.defined()) check.tensor("A_log", in.A_log.value, {in.heads});
  if (in.D.defined()) check.tensor("D", in.D.value, {in.heads});
  check.that(in.lag.defined() == in.log_decay.defined(), "log_decay and lag come together");
  if (!in.lag.defined()) return;
  check.that(in.dt.defined() && !in.A_log.defined(), "log_decay replaces A_log and needs dt");
  check.rows("log_decay", in.log_decay.value, {batch, tokens, in.heads});
  check.rows("lag", in.lag.value, {batch, tokens, in.heads});
}

ScanInputs values_of(const ScanVars& in) {
  const auto heads = static_cast<int>(in.heads), groups = static_cast<int>(in.groups);
  return {in.x.value, in.dt.value, in.A_log.value, in.B.value,         in.C.value,
          in.D.value, heads,       groups,         in.log_decay.value, in.lag.value};
}

void check_inputs(const Check& check, const DeltaVars& in) {
  const DType stored = in.q.value.dtype;
  check.tensor("q", in.q.value, {Check::any, Check::any, Check::any, Check::any}, stored);
  const std::int64_t batch = in.q.shape()[0], tokens = in.q.shape()[1], heads = in.q.shape()[2];
  check.tensor("k", in.k.value, in.q.shape(), stored);
  check.tensor("v", in.v.value, {batch, tokens, heads, Check::any}, stored);
  check.that(in.q.value.elements() > 0 && in.v.value.elements() > 0, "has nothing to do: an extent is zero");
  if (in.beta.defined()) check.tensor("beta", in.beta.value, {batch, tokens, heads});
  if (!in.g.defined()) return;
  const bool by_channel = in.g.shape().rank() == 4;
  check.tensor("g", in.g.value, by_channel ? in.q.shape() : Shape{batch, tokens, heads});
}

DeltaInputs values_of(const DeltaVars& in, const Tensor& kept) {
  return {in.q.value, in.k.value, in.v.value, in.beta.value, in.g.value, in.scale, kept};
}

KalmanInputs values_of(const KalmanVars& in) { return {in.q.value, in.k.value, in.v.value, in.weight.value, in.ridge}; }

}  // namespace

Var channel_scan(Tape& tape, const ChannelScanVars& in, const Tensor& state, bool resume) {
  const Check check(tape, "channel_scan", in.x.value.dtype);
  check.rows("x", in.x.value, {Check::any, Check::any, Check::any});
  const std::int64_t batch = in.x.shape()[0], tokens = in.x.shape()[1], channels = in.x.shape()[2];
  check.rows("dt", in.dt.value, in.x.shape());
  check.rows("B", in.B.value, {batch, tokens, Check::any});
  check.rows("C", in.C.value, in.B.shape());
  const std::int64_t states = in.B.shape()[2];
  check.that(in.x.value.elements() > 0 && states > 0, "has nothing to do: an extent is zero");
  check.tensor("A_log", in.A_log.value, {channels, states});
  check.tensor("D", in.D.value, {channels});
  if (state.defined()) check.tensor("state", state, {batch, channels, states});
  if (resume) check.may_resume(state.defined());
  const Var y = tape.result(in.x.shape(), in.x.value.dtype, {in.x, in.dt, in.A_log, in.B, in.C, in.D});
  tape.backend().channel_scan(values_of(in), y.value, state, resume);
  return check.recorded(y, [in, y](Tape& t) {
    run_backward(t, &Kernels::channel_scan_backward, values_of(in), y, in.x, in.dt, in.B, in.C, in.A_log, in.D);
  });
}

Var ssd_scan(Tape& tape, const ScanVars& vars, const Tensor& state, bool resume) {
  ScanVars in = vars;
  in.x = with_three_axes(tape, vars.x);
  in.B = with_three_axes(tape, vars.B);
  in.C = with_three_axes(tape, vars.C);
  check_inputs(tape, in);
  const std::int64_t batch = in.x.shape()[0], tokens = in.x.shape()[1];
  const std::int64_t width = in.x.shape()[2] / in.heads, states = in.B.shape()[2] / in.groups;
  const Check check(tape, "ssd_scan", widened(in.x.value.dtype));
  if (state.defined()) check.tensor("state", state, {batch, in.heads, width, states});
  if (resume) check.may_resume(state.defined());
  const Var y = tape.result({batch, tokens, in.heads, width}, in.x.value.dtype,
                            {in.x, in.dt, in.A_log, in.B, in.C, in.D, in.log_decay, in.lag});
  tape.backend().ssd_scan(values_of(in), y.value, state, resume);
  return check.recorded(y, [in, y](Tape& t) {
    run_backward(t, &Kernels::ssd_scan_backward, values_of(in), y, in.x, in.dt, in.log_decay, in.lag, in.B, in.C,
                 in.A_log, in.D);
  });
}

Var delta_scan(Tape& tape, const DeltaVars& in, const Tensor& state, bool resume) {
  const Check check(tape, "delta_scan", widened(in.q.value.dtype));
  check_inputs(check, in);
  const Shape& q = in.q.shape();
  if (state.defined()) check.tensor("state", state, {q[0], q[2], q[3], in.v.shape()[3]});
  if (resume) check.may_resume(state.defined());
  const Var y = tape.result(in.v.shape(), in.v.value.dtype, {in.v, in.q, in.k, in.beta, in.g});
  const std::int64_t numbers = tape.recording() ? tape.backend().plan(values_of(in, {})).kept : 0;
  const Tensor kept = numbers > 0 ? tape.scratch({numbers}, widened(y.value.dtype)) : Tensor();
  tape.backend().delta_scan(values_of(in, kept), y.value, state, resume);
  return check.recorded(y, [in, y, kept](Tape& t) {
    run_backward(t, &Kernels::delta_scan_backward, values_of(in, kept), y, in.v, in.q, in.k, in.beta, in.g);
  });
}

Var kalman_scan(Tape& tape, const KalmanVars& in, const KalmanState& state, bool resume) {
  const Check check(tape, "kalman_scan", in.q.value.dtype);
  check.tensor("q", in.q.value, {Check::any, Check::any, Check::any, Check::any});
  const std::int64_t batch = in.q.shape()[0], tokens = in.q.shape()[1], heads = in.q.shape()[2], keys = in.q.shape()[3];
  check.tensor("k", in.k.value, in.q.shape());
  check.tensor("v", in.v.value, {batch, tokens, heads, Check::any});
  check.that(in.q.value.elements() > 0 && in.v.value.elements() > 0, "has nothing to do: an extent is zero");
  check.that(in.ridge > 0, "the ridge must be positive: without it nothing is known before the first token");
  if (in.weight.defined()) check.tensor("weight", in.weight.value, {batch, tokens, heads});
  if (state.covariance.defined()) check.tensor("covariance", state.covariance, {batch, heads, keys, keys});
  if (state.memory.defined()) check.tensor("memory", state.memory, {batch, heads, keys, in.v.shape()[3]});
  if (resume) check.may_resume(state.covariance.defined() && state.memory.defined());
  const Var y = tape.result(in.v.shape(), in.v.value.dtype, {in.q, in.k, in.v, in.weight});
  tape.backend().kalman_scan(values_of(in), y.value, state, resume);
  return check.recorded(y, [in, y](Tape& t) {
    run_backward(t, &Kernels::kalman_scan_backward, values_of(in), y, in.q, in.k, in.v, in.weight);
  });
}

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
