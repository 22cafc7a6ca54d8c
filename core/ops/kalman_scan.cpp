// The Kalman recursion as one operation.
#include "core/backend/kalman.h"
#include "core/ops/check.h"
#include "core/ops/ops.h"

namespace afterglow {

namespace {

KalmanInputs values_of(const KalmanVars& in) { return {in.q.value, in.k.value, in.v.value, in.weight.value, in.ridge}; }

void kalman_backward(Tape& tape, const KalmanVars& in, const Var& y) {
  const auto grads = gradients_of<KalmanGrads>(tape, in.q, in.k, in.v, in.weight);
  const KalmanInputs values = values_of(in);
  const Tensor workspace = tape.scratch({tape.backend().kalman_scan_workspace(values)}, y.value.dtype);
  tape.backend().kalman_scan_backward(values, tape.upstream(y), workspace, grads);
}

}  // namespace

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
  return check.recorded(y, [in, y](Tape& t) { kalman_backward(t, in, y); });
}

}  // namespace afterglow
