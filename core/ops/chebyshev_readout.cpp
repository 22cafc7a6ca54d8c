// The core of Gated KalmaNet as one operation, over a sequence and token by token.
#include "core/backend/chebyshev.h"
#include "core/ops/check.h"
#include "core/ops/ops.h"

namespace afterglow {

namespace {

void check_inputs(Tape& tape, const char* operation, const ChebyshevConfig& config, const ChebyshevVars& in) {
  const DType stored = in.q.value.dtype;
  const Check check(tape, operation, widened(stored));
  check.tensor("q", in.q.value, {Check::any, Check::any, Check::any, Check::any}, stored);
  const Shape& q = in.q.shape();
  check.tensor("k", in.k.value, q, stored);
  check.tensor("v", in.v.value, q, stored);
  if (in.g.defined()) check.tensor("g", in.g.value, {q[0], q[1], q[2]});
  if (in.alpha.defined()) check.tensor("alpha", in.alpha.value, {q[0], q[1], q[2]});
  check.that(q.elements() > 0, "the sequence, its heads and their width must not be empty");
  check.that(config.chunk > 0, "the chunk length must be positive");
  check.that(config.iterations >= 0, "the number of iterations must not be negative");
  check.that(config.ridge >= 0 && config.fixed_lambda >= 0, "the ridge must not be negative");
  check.that(config.gate_floor >= 0 && config.gate_floor <= 1, "the floor of the gate must lie between 0 and 1");
}

ChebyshevInputs values_of(const ChebyshevVars& in) {
  return {in.q.value, in.k.value, in.v.value, in.g.value, in.alpha.value};
}

ChebyshevSaved reserve_saved(Tape& tape, const ChebyshevVars& in) {
  const Shape& q = in.q.shape();
  const DType dtype = widened(in.q.value.dtype);
  ChebyshevSaved saved;
  saved.lambda = tape.scratch({q[0], q[1], q[2]}, dtype);
  saved.fro = tape.scratch({q[0], q[1], q[2]}, dtype);
  saved.x = tape.scratch(q, dtype);
  return saved;
}

void readout_backward(Tape& tape, const ChebyshevConfig& config, const ChebyshevVars& in, const ChebyshevSaved& saved,
                      const Var& y) {
  const auto grads = gradients_of<ChebyshevGrads>(tape, in.q, in.alpha, in.k, in.v, in.g);
  const ChebyshevInputs values = values_of(in);
  const std::int64_t count = tape.backend().chebyshev_readout_workspace(config, values);
  const Tensor workspace = tape.scratch({count}, widened(y.value.dtype));
  tape.backend().chebyshev_readout_backward(config, values, saved, tape.upstream(y), workspace, grads);
}

}  // namespace

Var chebyshev_readout(Tape& tape, const ChebyshevConfig& config, const ChebyshevVars& in, ChebyshevSaved* saved) {
  check_inputs(tape, "chebyshev_readout", config, in);
  const Shape& q = in.q.shape();
  const Var y = tape.result(q, in.q.value.dtype, {in.q, in.k, in.v, in.g, in.alpha});
  ChebyshevSaved kept = reserve_saved(tape, in);
  const Shape states{q[0], q[2], config.chunks(q[1]), q[3], q[3]};
  kept.H = tape.scratch(states, in.q.value.dtype);  // a back end that takes narrow values keeps narrow states
  kept.S = tape.scratch(states, in.q.value.dtype);
  tape.backend().chebyshev_readout(config, values_of(in), kept, y.value);
  if (saved) *saved = kept;
  tape.record("chebyshev_readout", y, [config, in, kept, y](Tape& t) { readout_backward(t, config, in, kept, y); });
  return y;
}

Var chebyshev_step(Tape& tape, const ChebyshevConfig& config, const ChebyshevVars& in, const ChebyshevState& state,
                   ChebyshevSaved* saved) {
  check_inputs(tape, "chebyshev_step", config, in);
  const Check check(tape, "chebyshev_step", in.q.value.dtype);
  const Shape& q = in.q.shape();
  check.that(!tape.recording(), "has no gradient; train with chebyshev_readout, or begin the tape without recording");
  check.that(q[1] == 1, "takes one token at a time");
  check.tensor("state H", state.H, {q[0], q[2], q[3], q[3]});
  check.tensor("state S", state.S, {q[0], q[2], q[3], q[3]});
  const ChebyshevSaved kept = reserve_saved(tape, in);
  const Var y = tape.result(q, in.q.value.dtype, {});
  tape.backend().chebyshev_step(config, values_of(in), state, kept, y.value);
  if (saved) *saved = kept;
  return check.recorded(y, [](Tape&) {});
}

}  // namespace afterglow
