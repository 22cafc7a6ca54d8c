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
    backend.gemm_gradients({&dy, 1}, as_matrix(x.value), {&dw, 1}, {&dbias, 1});
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
  const Tensor result = as_matrix(y.value);
  tape.backend().gemm_each(as_matrix(x.value), {&weight.value, 1}, {&bias.value, 1}, {&result, 1});
  tape.record("linear", y, [x, weight, bias, y](Tape& t) { linear_backward(t, x, weight, bias, y); });
  return y;
}

namespace {

/// What the way back through several maps of one input needs. In the order in which single maps would be run back: the
/// first, then the others from the last on.
struct Maps {
  Var x, weights[most_maps], biases[most_maps], results[most_maps];
  std::size_t count;

  void back(Tape& t) const {
    Tensor dy[most_maps], w[most_maps];
    Grad dw[most_maps], dbias[most_maps];
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t i = k == 0 ? 0 : count - k;
      dy[k] = as_matrix(t.upstream(results[i]));
      w[k] = weights[i].value;
      dw[k] = t.gradient_beside(weights[i]);
    }
    for (std::size_t k = 0; k < count; ++k) dbias[k] = t.gradient_beside(biases[k == 0 ? 0 : count - k]);
    {
      const Beside beside(t.backend());
      t.backend().gemm_gradients({dy, count}, as_matrix(x.value), {dw, count}, {dbias, count});
    }
    t.backend().gemm_sum({dy, count}, {w, count}, as_matrix(t.gradient(x)));
  }
};

}  // namespace

void linear_each(Tape& tape, const Var& x, std::span<const Var> weights, std::span<Var> results,
                 std::span<const Var> biases) {
  const Check check(tape, "linear_each", x.value.dtype);
  check.that(!weights.empty() && weights.size() <= most_maps, "from one to five maps of an input at once");
  check.rows("x", x.value, x.shape());
  Maps maps{x, {}, {}, {}, weights.size()};
  Tensor w[most_maps], b[most_maps], y[most_maps];
  for (std::size_t i = 0; i < weights.size(); ++i) {
    check.tensor("weight", weights[i].value, {Check::any, x.shape().last()});
    if (i < biases.size()) maps.biases[i] = biases[i];
    const Var& bias = maps.biases[i];
    if (bias.defined()) check.tensor("bias", bias.value, {weights[i].shape()[0]});
    results[i] = tape.result(x.shape().with_last(weights[i].shape()[0]), x.value.dtype, {x, weights[i], bias});
    maps.weights[i] = weights[i];
    maps.results[i] = results[i];
    w[i] = weights[i].value;
    b[i] = bias.value;
    y[i] = as_matrix(results[i].value);
  }
  tape.backend().gemm_each(as_matrix(x.value), {w, weights.size()}, {b, weights.size()}, {y, weights.size()});
  tape.record("linear_each", std::span<const Var>(results), [maps](Tape& t) { maps.back(t); });
}

namespace {

/// What the way back through the gated MLP needs.
struct GatedMlp {
  Var x, gate, up, down, y;
  Tensor g, u, h;  // matrices

  void back(Tape& t) const {
    Backend& backend = t.backend();
    const Tensor in = as_matrix(x.value), dy = as_matrix(t.upstream(y));
    const Tensor lifted[] = {t.scratch(g.shape, g.dtype), t.scratch(g.shape, g.dtype)};
    const Tensor lifts[] = {gate.value, up.value};
    const Grad ddown = t.gradient_beside(down), dlifts[] = {t.gradient_beside(gate), t.gradient_beside(up)};
    {
      const Beside beside(backend);
      backend.gemm_gradients({&dy, 1}, h, {&ddown, 1}, {});
    }
    backend.gated_lift_backward(dy, down.value, g, u, lifted[0], lifted[1]);
    {
      const Beside beside(backend);
      backend.gemm_gradients(lifted, in, dlifts, {});
    }
    backend.gemm_sum(lifted, lifts, as_matrix(t.gradient(x)));
  }
};

}  // namespace

Var gated_mlp(Tape& tape, const Var& x, const Var& gate, const Var& up, const Var& down) {
  const Check check(tape, "gated_mlp", x.value.dtype);
  check.rows("x", x.value, x.shape());
  check.tensor("gate", gate.value, {Check::any, x.shape().last()});
  const std::int64_t inner = gate.shape()[0], outputs = down.shape()[0], rows = x.value.rows();
  check.tensor("up", up.value, gate.shape());
  check.tensor("down", down.value, {Check::any, inner});
  const Var y = tape.result(x.shape().with_last(outputs), x.value.dtype, {x, gate, up, down});
  GatedMlp mlp{x, gate, up, down, y, {}, {}, {}};
  for (Tensor* kept : {&mlp.g, &mlp.u, &mlp.h}) *kept = tape.scratch({rows, inner}, x.value.dtype);
  tape.backend().gated_lift(as_matrix(x.value), gate.value, up.value, mlp.g, mlp.u, mlp.h);
  tape.backend().gemm(false, true, 1.0, mlp.h, down.value, 0.0, as_matrix(y.value));
  tape.record("gated_mlp", y, [mlp](Tape& t) { mlp.back(t); });
  return y;
}

}  // namespace afterglow
