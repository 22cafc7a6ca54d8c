// Mamba-1's selective scan as one operation.
#include "core/ops/check.h"
#include "core/ops/ops.h"

namespace afterglow {

namespace {

ChannelScanInputs values_of(const ChannelScanVars& in) {
  return {in.x.value, in.dt.value, in.A_log.value, in.B.value, in.C.value, in.D.value};
}

void scan_backward(Tape& tape, const ChannelScanVars& in, const Var& y) {
  const auto grads = gradients_of<ChannelScanGrads>(tape, in.x, in.dt, in.B, in.C, in.A_log, in.D);
  const ChannelScanInputs values = values_of(in);
  const Tensor workspace = tape.scratch({tape.backend().channel_scan_workspace(values)}, y.value.dtype);
  tape.backend().channel_scan_backward(values, tape.upstream(y), workspace, grads);
}

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
  return check.recorded(y, [in, y](Tape& t) { scan_backward(t, in, y); });
}

}  // namespace afterglow
