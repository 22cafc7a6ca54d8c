// Operations along the sequence: rotary position code, causal convolution, also with step sizes of scans, attention.
#include "core/ops/check.h"
#include "core/ops/ops.h"

namespace afterglow {

namespace {

/// The shape [B,T,H,D] of heads that must have this one; narrow ones may lie side by side in strided rows, [B,T,H D].
Shape checked_heads(const Check& check, const char* name, const Tensor& heads, const Shape& expected) {
  if (heads.dtype != DType::bf16 || heads.shape.rank() == 4) {
    check.tensor(name, heads, expected);
    return heads.shape;
  }
  const std::int64_t width = expected[3], columns = heads.shape.last();
  check.that(width > 0 && columns % width == 0, "heads side by side need a width that divides their columns");
  check.rows(name, heads, {expected[0], expected[1], expected[2] == Check::any ? columns : expected[2] * width});
  return {heads.shape[0], heads.shape[1], columns / width, width};
}

std::int64_t width_or_any(std::int64_t width) { return width > 0 ? width : Check::any; }

}  // namespace

std::array<Var, 2> rotary_pair(Tape& tape, const Var& q, const Var& k, const RotaryRates& rates,
                               std::int64_t first_position, std::int64_t width) {
  const Check check(tape, "rotary_pair", q.value.dtype);
  const Shape queries = checked_heads(check, "q", q.value, {Check::any, Check::any, Check::any, width_or_any(width)});
  const Shape keys = checked_heads(check, "k", k.value, {queries[0], queries[1], Check::any, queries[3]});
  check.that(rates.base > 0.0, "base must be positive");
  const std::array<Var, 2> y{tape.result(queries, q.value.dtype, {q}), tape.result(keys, k.value.dtype, {k})};
  const Tensor from[] = {q.value, k.value};
  const Grad to[] = {{y[0].value, false}, {y[1].value, false}};
  tape.backend().rotary(from, rates, first_position, false, to);
  tape.record("rotary_pair", std::span<const Var>(y), [q, k, rates, first_position, y](Tape& t) {
    const Tensor dy[] = {t.upstream(y[0]), t.upstream(y[1])};
    const Grad dx[] = {t.gradient(q), t.gradient(k)};
    t.backend().rotary(dy, rates, first_position, true, dx);
  });
  return y;
}

namespace {

/// The sum of a convolution from which on the slope of SiLU is 1 in every type, so that one gradient rule serves with
/// and without SiLU.
constexpr double where_silu_is_straight = 1000.0;

/// Where a convolution's results go.
Var convolved_like(Tape& tape, const Check& check, const Var& x, const Var& weight, const Var& bias,
                   const Tensor& history) {
  check.rows("x", x.value, {Check::any, Check::any, Check::any}, x.value.dtype);
  check.tensor("weight", weight.value, {x.shape().last(), 1, Check::any});
  if (bias.defined()) check.tensor("bias", bias.value, {x.shape().last()});
  if (history.defined()) check.tensor("history", history, {x.shape()[0], weight.shape()[2] - 1, x.shape().last()});
  const Var y = tape.result(x.shape(), x.value.dtype, {x, weight, bias});
  check.that(!history.defined() || !tape.wants_gradient(y),
             "no gradient is kept through a history; begin the tape without recording");
  return y;
}

/// Memory for the sums before SiLU, where the gradient reads them.
Tensor sums_of(Tape& tape, const Var& x, bool keeps) {
  return keeps ? tape.scratch(x.shape(), widened(x.value.dtype)) : Tensor{};
}

bool keeps_sums(const Tape& tape, const Var& x, const Var& weight) {
  return tape.backend().plan(ConvolutionCall{x.value, weight.value}).kept > 0;
}

Var convolution(Tape& tape, const Var& x, const Var& weight, const Var& bias, const Tensor& history, bool silu,
                const UnitHeads& heads = {}) {
  const Check check(tape, "causal_conv", widened(x.value.dtype));
  const Var y = convolved_like(tape, check, x, weight, bias, history);
  const Tensor before = sums_of(tape, x, !silu || keeps_sums(tape, x, weight));
  const Convolution conv{x.value, weight.value, bias.value, before, history};
  tape.backend().causal_conv(conv, heads, y.value);
  if (!silu) {
    tape.backend().copy(y.value, before);
    tape.backend().fill(before, where_silu_is_straight);
  }
  return check.recorded(y, [x, weight, bias, conv, heads, y](Tape& t) {
    const ConvolutionGrads grads{t.gradient(x), t.side_stream_gradient(weight), t.side_stream_gradient(bias)};
    t.backend().causal_conv_backward(conv, heads, t.upstream(y), grads);
  });
}

}  // namespace

Var causal_conv(Tape& tape, const Var& x, const Var& weight, const Var& bias, const Tensor& history) {
  return convolution(tape, x, weight, bias, history, true);
}

Var plain_causal_conv(Tape& tape, const Var& x, const Var& weight, const Var& bias, const Tensor& history) {
  return convolution(tape, x, weight, bias, history, false);
}

Var unit_causal_conv(Tape& tape, const Var& x, const Var& weight, std::int64_t width, double eps,
                     const Tensor& history) {
  const Check check(tape, "unit_causal_conv", widened(x.value.dtype));
  check.that(width > 0 && x.shape().last() % width == 0, "heads must divide the columns of x");
  const bool at_once =
      !history.defined() && tape.backend().plan(ConvolutionCall{x.value, weight.value, width}).unit_heads;
  const Var y = convolution(tape, x, weight, {}, history, true, at_once ? UnitHeads{width, eps} : UnitHeads{});
  const Var heads = tape.reshape(y, {x.shape()[0], x.shape()[1], x.shape().last() / width, width});
  return at_once ? heads : unit_norm(tape, heads, eps);
}

std::array<Var, 2> conv_with_steps(Tape& tape, const Var& x, const Var& weight, const Var& bias, const Tensor& history,
                                   const Var& steps, const Var& steps_bias, const StepRange& range) {
  const DType dtype = widened(x.value.dtype);
  const Check check(tape, "conv_with_steps", dtype);
  check.rows("steps", steps.value, x.shape().with_last(steps.shape().last()), x.value.dtype);
  check.tensor("steps_bias", steps_bias.value, {steps.shape().last()});
  const std::array<Var, 2> y{convolved_like(tape, check, x, weight, bias, history),
                             tape.result(steps.shape(), dtype, {steps, steps_bias})};
  const Convolution conv{x.value, weight.value, bias.value, sums_of(tape, x, keeps_sums(tape, x, weight)), history};
  const StepSizes sizes{steps.value, steps_bias.value, range};
  tape.backend().conv_with_steps(conv, y[0].value, sizes, y[1].value);
  tape.record(
      "conv_with_steps", std::span<const Var>(y), [x, weight, bias, steps, steps_bias, conv, sizes, y](Tape& t) {
        const StepSizesGrads dsteps{t.gradient(steps), t.side_stream_gradient(steps_bias)};
        const ConvolutionGrads dconv{t.gradient(x), t.side_stream_gradient(weight), t.side_stream_gradient(bias)};
        t.backend().conv_with_steps_backward(conv, t.upstream(y[0]), dconv, sizes, t.upstream(y[1]), dsteps);
      });
  return y;
}

Var repeat_heads(Tape& tape, const Var& x, std::int64_t times) {
  const Check check(tape, "repeat_heads", x.value.dtype);
  check.tensor("x", x.value, {Check::any, Check::any, Check::any, Check::any});
  check.that(times > 0, "heads are repeated at least once");
  if (times == 1) return x;
  const std::int64_t width = x.shape().last();
  const Shape rows{x.value.rows(), times * width};  // of x, each with its copies side by side
  const Var y = tape.result({x.shape()[0], x.shape()[1], x.shape()[2] * times, width}, x.value.dtype, {x});
  for (std::int64_t i = 0; i < times; ++i)
    tape.backend().copy(y.value.reshaped(rows).column_range(i * width, width), as_matrix(x.value));
  return check.recorded(y, [x, y, rows, times, width](Tape& t) {
    const Tensor dy = t.upstream(y).reshaped(rows);
    for (std::int64_t i = 0; i < times; ++i)
      t.backend().accumulate(dy.column_range(i * width, width), as_matrix(t.gradient(x)));
  });
}

namespace {

Var attention(Tape& tape, const char* name, const Var& q, const Var& k, const Var& v, double scale, std::int64_t window,
              std::int64_t width = 0) {
  const Check check(tape, name, q.value.dtype);
  const Shape queries = checked_heads(check, "q", q.value, {Check::any, Check::any, Check::any, width_or_any(width)});
  const Shape keys = checked_heads(check, "k", k.value, {queries[0], Check::any, Check::any, queries[3]});
  checked_heads(check, "v", v.value, keys);
  check.that(window == 0 || keys[1] >= queries[1], "there must be at least as many keys as queries");
  check.that(queries[2] % keys[2] == 0, "the number of key heads must divide the number of query heads");
  const Var y = tape.result(queries, q.value.dtype, {q, k, v});
  const Tensor log_sum = tape.scratch({queries[0], queries[2], queries[1]}, widened(q.value.dtype));
  tape.backend().attention(q.value, k.value, v.value, scale, window, y.value, log_sum);
  tape.record(name, y, [q, k, v, scale, window, log_sum, y](Tape& t) {
    const Grad dq = t.gradient(q), dk = t.gradient(k), dv = t.gradient(v);
    t.backend().attention_backward(q.value, k.value, v.value, scale, window, y.value, log_sum, t.upstream(y), dq, dk,
                                   dv);
  });
  return y;
}

}  // namespace

Var causal_attention(Tape& tape, const Var& q, const Var& k, const Var& v, double scale, std::int64_t width,
                     std::int64_t window) {
  return attention(tape, "causal_attention", q, k, v, scale, window, width);
}

Var full_attention(Tape& tape, const Var& q, const Var& k, const Var& v, double scale) {
  return attention(tape, "full_attention", q, k, v, scale, 0);
}

}  // namespace afterglow
