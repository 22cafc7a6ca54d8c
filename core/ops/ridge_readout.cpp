// The SKA core as one operation, over a sequence and token by token.
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
  const std::int64_t numbers = tape.backend().ridge_readout_workspace(config, values);
  const Tensor workspace = tape.scratch({numbers}, widened(y.value.dtype));
  tape.backend().ridge_readout_backward(config, values, saved, tape.upstream(y), workspace, grads);
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

Var ridge_step(Tape& tape, const RidgeConfig& config, const RidgeVars& in, const RidgeState& state, RidgeSaved* saved) {
  RidgeConfig recurrent = config;
  recurrent.mode = RidgeConfig::Mode::recurrent;
  check_inputs(tape, "ridge_step", recurrent, in);
  const Check check(tape, "ridge_step", in.z.value.dtype);
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
  const RidgeSaved kept = reserve_saved(tape, in, 1);
  const Var y = tape.result(in.v.shape(), in.v.value.dtype, {});
  tape.backend().ridge_step(recurrent, values_of(in), state, kept, y.value);
  if (saved) *saved = kept;
  return check.recorded(y, [](Tape&) {});
}

}  // namespace afterglow
