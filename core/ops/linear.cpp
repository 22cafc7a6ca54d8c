// Linear maps: one matrix product forward, two backward.
#include "core/ops/check.h"
#include "core/ops/ops.h"

namespace afterglow {

namespace {

/// What several maps of one input keep for the way back; undefined where that is nothing.
Tensor keep(Tape& tape, const Tensor& x, std::span<const Tensor> weights) {
  const std::int64_t count = tape.recording() ? tape.backend().gemm_kept(x, weights) : 0;
  return count > 0 ? tape.scratch({count}, x.dtype) : Tensor{};
}

/// The way back through maps of one input. In the order in which single maps would be run back: the first, then the
/// others from the last on.
struct Maps {
  Var x, weights[most_maps], biases[most_maps], results[most_maps];
  std::size_t count;
  Tensor kept;

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
    t.backend().gemm_back(
        {{dy, count}, {w, count}, as_matrix(x.value), kept, {dw, count}, {dbias, count}, as_matrix(t.gradient(x))});
  }
};

}  // namespace

Var linear(Tape& tape, const Var& x, const Var& weight, const Var& bias) {
  const Check check(tape, "linear", x.value.dtype);
  check.rows("x", x.value, x.shape());
  check.tensor("weight", weight.value, {Check::any, x.shape().last()});
  const std::int64_t outputs = weight.shape()[0];
  if (bias.defined()) check.tensor("bias", bias.value, {outputs});
  const Var y = tape.result(x.shape().with_last(outputs), x.value.dtype, {x, weight, bias});
  const Tensor in = as_matrix(x.value), result = as_matrix(y.value), kept = keep(tape, in, {&weight.value, 1});
  tape.backend().gemm_each(in, {&weight.value, 1}, {&bias.value, 1}, {&result, 1}, kept);
  const Maps maps{x, {weight}, {bias}, {y}, 1, kept};
  tape.record("linear", y, [maps](Tape& t) { maps.back(t); });
  return y;
}

void linear_each(Tape& tape, const Var& x, std::span<const Var> weights, std::span<Var> results,
                 std::span<const Var> biases) {
  const Check check(tape, "linear_each", x.value.dtype);
  check.that(!weights.empty() && weights.size() <= most_maps, "from one to five maps of an input at once");
  check.rows("x", x.value, x.shape());
  Maps maps{x, {}, {}, {}, weights.size(), {}};
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
  const Tensor in = as_matrix(x.value);
  maps.kept = keep(tape, in, {w, weights.size()});
  tape.backend().gemm_each(in, {w, weights.size()}, {b, weights.size()}, {y, weights.size()}, maps.kept);
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
