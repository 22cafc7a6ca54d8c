// The cores of SKA and of Gated KalmaNet, each as one operation, over a sequence and token by token.
#include "core/backend/chebyshev.h"
#include "core/ops/check.h"
#include "core/ops/ops.h"

namespace afterglow {
namespace {

/// Keys, queries and values: heads of their own, or stored as bfloat16 columns of one row for all heads.
void check_tokens(const Check& check, const RidgeVars& in) {
  const Shape& z = in.z.shape();
  if (in.z.value.dtype != DType::bf16) {
    check.tensor("z", in.z.value, {Check::any, Check::any, Check::any, Check::any});
    check.tensor("q", in.q.value, z);
    check.tensor("v", in.v.value, {z[0], z[1], z[2], Check::any});
    return check.tensor("eta", in.eta.value, {z[2]});
  }
  check.rows("z", in.z.value, {Check::any, Check::any, Check::any}, DType::bf16);
  check.rows("q", in.q.value, z, DType::bf16);
  check.rows("v", in.v.value, {z[0], z[1], Check::any}, DType::bf16);
  check.tensor("eta", in.eta.value, {Check::any});
  const std::int64_t heads = in.eta.shape()[0];
  check.that(heads > 0 && z[2] % heads == 0 && in.v.shape()[2] % heads == 0, "heads must divide the columns");
}

void check_inputs(Tape& tape, const char* operation, const RidgeConfig& config, const RidgeVars& in) {
  const Check check(tape, operation, widened(in.z.value.dtype));
  check_tokens(check, in);
  const Shape& z = in.z.shape();
  check.tensor("gamma_raw", in.gamma_raw.value, in.eta.shape());
  if (in.length.defined()) check.tensor("length", in.length.value, {z[0], z[1], z[2]});
  if (in.left.defined()) check.tensor("left", in.left.value, z);
  check.that(in.length.defined() || !in.left.defined(), "left factors need lengths");
  check.that(z.elements() > 0 && in.v.shape().last() > 0, "the sequence, its heads and their widths must not be empty");
  check.that(config.chunk > 0, "the chunk length must be positive");
  check.that(config.power >= 0 && config.power_iterations >= 0, "the power and the iterations must not be negative");
  if (config.mode == RidgeConfig::Mode::masked) {
    check.that(in.mask.defined(), "masked mode needs a mask");
    check.tensor("mask", in.mask, {z[0], z[1]}, DType::u8);
  }
}

void check_step(Tape& tape, const char* operation, const RidgeVars& in, const RidgeState& state) {
  const Check check(tape, operation, in.z.value.dtype);
  const Shape& z = in.z.shape();
  const std::int64_t batch = z[0], heads = z[2], r = z[3], width = in.v.shape()[3];
  check.that(!tape.recording(),
             "has no gradient; train with ridge_readout in recurrent mode, or begin the tape without recording");
  check.that(z[1] == 1, "takes one token at a time");
  check.tensor("state G", state.G, {batch, heads, r, r});
  check.tensor("state M", state.M, {batch, heads, r, r});
  check.tensor("state C", state.C, {batch, heads, width, r});
  check.tensor("state previous_key", state.previous_key, {batch, heads, r});
  check.tensor("state m", state.m, {batch, heads});
}

RidgeInputs values_of(const RidgeVars& in) {
  return {in.z.value,         in.q.value, in.v.value,      in.eta.value,
          in.gamma_raw.value, in.mask,    in.length.value, in.left.value};
}

RidgeSaved reserve_saved(Tape& tape, const RidgeVars& in, std::int64_t groups) {
  const auto [batch, tokens, heads, r, width] = values_of(in).sizes();
  const DType dtype = widened(in.z.value.dtype);
  const auto entry = [&](std::int64_t rows, std::int64_t columns) {
    return tape.scratch({batch, heads, groups, rows, columns}, dtype);
  };
  const auto number = [&](DType type) { return tape.scratch({batch, heads, groups}, type); };
  RidgeSaved saved;
  saved.G = entry(r, r);
  saved.M = entry(r, r);
  saved.L = entry(r, r);
  saved.A_w = entry(r, r);
  saved.C = entry(width, r);
  saved.F = entry(width, r);
  saved.m = number(dtype);
  saved.sigma = number(dtype);
  saved.jitter = number(dtype);
  saved.m_index = number(DType::i32);
  if (tape.recording()) saved.inverse = entry(r, r);
  return saved;
}

void readout_backward(Tape& tape, const RidgeConfig& config, const RidgeVars& in, const RidgeSaved& saved,
                      const Var& y) {
  const auto grads = gradients_of<RidgeGrads>(tape, in.q, in.v, in.left, in.z, in.eta, in.gamma_raw, in.length);
  const RidgeInputs values = values_of(in);
  const Tensor workspace = tape.scratch({tape.backend().plan(config, values).workspace}, widened(y.value.dtype));
  tape.backend().ridge_readout_backward(config, values, saved, tape.upstream(y), workspace, grads);
}

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
  const Tensor workspace = tape.scratch({tape.backend().plan(config, values).workspace}, widened(y.value.dtype));
  tape.backend().chebyshev_readout_backward(config, values, saved, tape.upstream(y), workspace, grads);
}

}  // namespace

Var ridge_readout(Tape& tape, const RidgeConfig& config, const RidgeVars& in, RidgeSaved* saved) {
  check_inputs(tape, "ridge_readout", config, in);
  const RidgeSaved kept = reserve_saved(tape, in, config.groups(in.z.shape()[1]));
  const auto [batch, tokens, heads, rank, width] = values_of(in).sizes();
  const Var y = tape.result({batch, tokens, heads, width}, in.v.value.dtype,
                            {in.z, in.q, in.v, in.eta, in.gamma_raw, in.length, in.left});
  tape.backend().ridge_readout(config, values_of(in), kept, y.value);
  if (saved) *saved = kept;
  tape.record("ridge_readout", y, [config, in, kept, y](Tape& t) { readout_backward(t, config, in, kept, y); });
  return y;
}

Var ridge_scales(Tape& tape, const RidgeConfig& config, const Var& length, const RidgeSaved& saved) {
  Check(tape, "ridge_scales", length.value.dtype).tensor("length", length.value, length.shape());
  const Var m = tape.result(length.shape(), length.value.dtype, {length});
  tape.backend().ridge_scales(config, saved, m.value);
  tape.record("ridge_scales", m, [config, length, saved, m](Tape& t) {
    t.backend().ridge_scales_backward(config, saved, t.upstream(m), t.gradient(length));
  });
  return m;
}

void ridge_write_key(Tape& tape, const RidgeVars& in, const RidgeState& state) {
  check_step(tape, "ridge_write_key", in, state);
  tape.backend().ridge_write_key(values_of(in), state);
}

void ridge_write_value(Tape& tape, const RidgeVars& in, const RidgeState& state) {
  check_step(tape, "ridge_write_value", in, state);
  tape.backend().ridge_write_value(in.v.value, state);
}

Var ridge_answer(Tape& tape, const RidgeConfig& config, const RidgeVars& in, const RidgeState& state,
                 RidgeSaved* saved) {
  check_step(tape, "ridge_answer", in, state);
  RidgeConfig recurrent = config;
  recurrent.mode = RidgeConfig::Mode::recurrent;
  check_inputs(tape, "ridge_answer", recurrent, in);
  RidgeSaved kept = reserve_saved(tape, in, 1);
  const std::pair<Tensor*, const Tensor*> sums[] = {
      {&kept.G, &state.G}, {&kept.M, &state.M}, {&kept.C, &state.C}, {&kept.m, &state.m}};
  for (const auto& [to, from] : sums) *to = from->reshaped(to->shape);
  const Var y = tape.result(in.v.shape(), in.v.value.dtype, {});
  tape.backend().ridge_answer(recurrent, values_of(in), state, kept, y.value);
  if (saved) *saved = kept;
  return y;
}

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
