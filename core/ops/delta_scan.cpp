// The delta-rule family as one operation.
#include "core/backend/delta.h"
#include "core/ops/check.h"
#include "core/ops/ops.h"

namespace afterglow {

namespace {

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

void delta_backward(Tape& tape, const DeltaVars& in, const Var& y, const Tensor& kept) {
  const auto grads = gradients_of<DeltaGrads>(tape, in.v, in.q, in.k, in.beta, in.g);
  const DeltaInputs values = values_of(in, kept);
  const Tensor workspace = tape.scratch({tape.backend().delta_scan_workspace(values)}, widened(y.value.dtype));
  tape.backend().delta_scan_backward(values, tape.upstream(y), workspace, grads);
}

}  // namespace

Var delta_scan(Tape& tape, const DeltaVars& in, const Tensor& state, bool resume) {
  const Check check(tape, "delta_scan", widened(in.q.value.dtype));
  check_inputs(check, in);
  const Shape& q = in.q.shape();
  if (state.defined()) check.tensor("state", state, {q[0], q[2], q[3], in.v.shape()[3]});
  if (resume) check.may_resume(state.defined());
  const Var y = tape.result(in.v.shape(), in.v.value.dtype, {in.v, in.q, in.k, in.beta, in.g});
  const std::int64_t numbers = tape.recording() ? tape.backend().delta_scan_kept(values_of(in, {})) : 0;
  const Tensor kept = numbers > 0 ? tape.scratch({numbers}, widened(y.value.dtype)) : Tensor();
  tape.backend().delta_scan(values_of(in, kept), y.value, state, resume);
  return check.recorded(y, [in, y, kept](Tape& t) { delta_backward(t, in, y, kept); });
}

}  // namespace afterglow
