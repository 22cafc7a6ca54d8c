// Sessa's feedback solve as one operation.
#include "core/backend/feedback.h"
#include "core/ops/check.h"
#include "core/ops/ops.h"

namespace afterglow {
namespace {

FeedbackInputs values_of(const FeedbackVars& in, double scale) {
  return {in.q.value, in.k.value, in.gamma.value, in.f.value, scale};
}

void solve_backward(Tape& tape, const FeedbackVars& in, double scale, const Var& s, const FeedbackSaved& saved) {
  const auto grads = gradients_of<FeedbackGrads>(tape, in.q, in.k, in.gamma);
  const Tensor u = tape.scratch(s.shape(), s.value.dtype);
  tape.backend().feedback_solve_backward(values_of(in, scale), s.value, saved, tape.upstream(s), u, grads);
  tape.pass_gradient(in.f, u);
}

}  // namespace

Var feedback_solve(Tape& tape, const FeedbackVars& in, double scale) {
  const DType stored = in.f.value.dtype, wide = widened(stored);
  const Check check(tape, "feedback_solve", wide);
  check.tensor("f", in.f.value, {Check::any, Check::any, Check::any}, stored);
  const std::int64_t batch = in.f.shape()[0], tokens = in.f.shape()[1];
  check.rows("q", in.q.value, {batch, tokens, Check::any}, stored);
  check.rows("k", in.k.value, in.q.shape(), stored);
  check.tensor("gamma", in.gamma.value, {batch, tokens});
  const Var s = tape.result(in.f.shape(), stored, {in.q, in.k, in.gamma, in.f});
  FeedbackSaved saved;
  saved.routed = tape.scratch(s.shape(), wide);
  saved.log_sum = tape.scratch({batch, tokens}, wide);
  const std::int64_t workspace = tape.backend().plan(values_of(in, scale)).workspace;
  if (workspace > 0) saved.workspace = tape.scratch({workspace}, wide);
  tape.backend().feedback_solve(values_of(in, scale), s.value, saved);
  return check.recorded(s, [in, scale, s, saved](Tape& t) { solve_backward(t, in, scale, s, saved); });
}

}  // namespace afterglow
