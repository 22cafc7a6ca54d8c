// Linear maps: one matrix product forward, two backward.
#include "core/ops/check.h"
#include "core/ops/ops.h"

namespace afterglow {

namespace {

void linear_backward(Tape& tape, const Var& x, const Var& weight, const Var& bias, const Var& y) {
  Backend& backend = tape.backend();
  const Tensor dy = as_matrix(tape.upstream(y));
  const Grad dx = as_matrix(tape.gradient(x));
  const Grad dw = tape.gradient_beside(weight), dbias = tape.gradient_beside(bias);
  {
    const Beside beside(backend);
    if (dw.wanted()) backend.gemm(true, false, 1.0, dy, as_matrix(x.value), dw.accumulate ? 1.0 : 0.0, dw.tensor);
    backend.sum_rows(dy, dbias);
  }
  if (dx.wanted()) backend.gemm(false, false, 1.0, dy, weight.value, dx.accumulate ? 1.0 : 0.0, dx.tensor);
}

}  // namespace

Var linear(Tape& tape, const Var& x, const Var& weight, const Var& bias) {
  const Check check(tape, "linear", x.value.dtype);
  check.rows("x", x.value, x.shape());
  check.tensor("weight", weight.value, {Check::any, x.shape().last()});
  const std::int64_t outputs = weight.shape()[0];
  if (bias.defined()) check.tensor("bias", bias.value, {outputs});
  const Var y = tape.result(x.shape().with_last(outputs), x.value.dtype, {x, weight, bias});
  tape.backend().gemm(false, true, 1.0, as_matrix(x.value), weight.value, 0.0, as_matrix(y.value));
  if (bias.defined()) tape.backend().add_bias(y.value, bias.value, y.value);
  tape.record("linear", y, [x, weight, bias, y](Tape& t) { linear_backward(t, x, weight, bias, y); });
  return y;
}

void linear_each(Tape& tape, const Var& x, std::span<const Var> weights, std::span<Var> results) {
  for (std::size_t i = 1; i < weights.size(); ++i) {
    const Beside beside(tape.backend());
    results[i] = linear(tape, x, weights[i]);
  }
  results[0] = linear(tape, x, weights[0]);
  tape.backend().join_beside();
}

}  // namespace afterglow
