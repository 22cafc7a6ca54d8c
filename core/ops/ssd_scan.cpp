// The selective scan as one operation: Mamba-2's core, Mamba-3's with the trapezoidal rule, and with dt, A and D absent
// causal linear attention.
#include "core/ops/check.h"
#include "core/ops/ops.h"

namespace afterglow {

namespace {

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
  return {in.x.value,
          in.dt.value,
          in.A_log.value,
          in.B.value,
          in.C.value,
          in.D.value,
          static_cast<int>(in.heads),
          static_cast<int>(in.groups),
          in.log_decay.value,
          in.lag.value};
}

void scan_backward(Tape& tape, const ScanVars& in, const Var& y) {
  const auto grads = gradients_of<ScanGrads>(tape, in.x, in.dt, in.log_decay, in.lag, in.B, in.C, in.A_log, in.D);
  const ScanInputs values = values_of(in);
  const Tensor workspace = tape.scratch({tape.backend().ssd_scan_workspace(values)}, widened(y.value.dtype));
  tape.backend().ssd_scan_backward(values, tape.upstream(y), workspace, grads);
}

}  // namespace

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
  return check.recorded(y, [in, y](Tape& t) { scan_backward(t, in, y); });
}

}  // namespace afterglow
