// Linear projections: one matrix product forward, two backward.
#include "core/ops/check.h"
#include "core/ops/ops.h"

namespace afterglow {
namespace {

/// What several projections of one input keep for the backward pass; undefined where that is nothing.
KeptInput keep(Tape& tape, const Var& x, std::span<const Tensor> weights) {
  const std::int64_t count =
      tape.recording() ? tape.backend().plan(ProjectionCall{as_matrix(x.value), weights}).kept : 0;
  if (count == 0) return {};
  if (x.rounded.defined()) return {x.rounded, true};
  return {tape.scratch({count}, widened(x.value.dtype))};
}

/// Columns of a matrix that belong to one of several projections side by side.
Tensor columns_of(const Tensor& whole, std::span<const Var> weights, std::size_t which) {
  std::int64_t first = 0;
  for (std::size_t i = 0; i < which; ++i) first += weights[i].shape()[0];
  return as_matrix(whole).column_range(first, weights[which].shape()[0]);
}

/// The backward pass through projections of one input.
struct Projections {
  Var x, weights[max_projections], biases[max_projections], results[max_projections];
  std::size_t count;
  Tensor kept;
  Var together = {};  ///< in which the results lie side by side; undefined where each has memory of its own

  /// In the order in which single projections would be run back: the first, then the others from the last on. What lies
  /// side by side stays so.
  std::size_t place(std::size_t k) const { return k == 0 || together.defined() ? k : count - k; }

  void backward(Tape& t) const {
    Tensor dy[max_projections], w[max_projections];
    Grad dw[max_projections], dbias[max_projections];
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t i = place(k);
      dy[k] = together.defined() ? columns_of(t.upstream(together), {weights, count}, i)
                                 : as_matrix(t.upstream(results[i]));
      w[k] = weights[i].value;
      dw[k] = t.side_stream_gradient(weights[i]);
    }
    for (std::size_t k = 0; k < count; ++k) dbias[k] = t.side_stream_gradient(biases[place(k)]);
    const Tensor in = as_matrix(x.value);
    const Tensor narrow = together.defined() ? Tensor() : t.narrow_upstream(results[0]);
    if (narrow.defined() && count == 1 && !biases[0].defined() &&
        t.backend().plan(ProjectionCall{in, {w, 1}, 0, kept}).operands > 0)
      dy[0] = as_matrix(narrow);  // as it would be rounded
    t.backend().linear_backward(
        {{dy, count}, {w, count}, in, kept, {dw, count}, {dbias, count}, as_matrix(t.gradient(x))});
  }
};

/// The type of results that may be stored narrow.
DType stored_in(const Tape& tape, const ProjectionCall& call) {
  return tape.backend().plan(call).stored == Storage::narrow ? DType::bf16 : widened(call.x.dtype);
}

Var project(Tape& tape, const Var& x, const Var& weight, const Var& bias, std::int64_t row_stride, Storage stored) {
  const Check check(tape, "linear", widened(x.value.dtype));
  check.rows("x", x.value, x.shape(), x.value.dtype);
  check.weight("weight", weight.value, {Check::any, x.shape().last()});
  const std::int64_t outputs = weight.shape()[0];
  if (bias.defined()) check.tensor("bias", bias.value, {outputs});
  const Tensor in = as_matrix(x.value);
  const DType dtype =
      tape.may_store_narrow(stored) ? stored_in(tape, {in, {&weight.value, 1}, row_stride}) : widened(x.value.dtype);
  const Var y = tape.result(x.shape().with_last(outputs), dtype, {x, weight, bias}, row_stride);
  const Tensor result = as_matrix(y.value);
  const KeptInput kept = keep(tape, x, {&weight.value, 1});
  tape.backend().linear_forward_many(in, {&weight.value, 1}, {&bias.value, 1}, {&result, 1}, kept);
  const Projections projections{x, {weight}, {bias}, {y}, 1, kept.numbers};
  return check.recorded(y, [projections](Tape& t) { projections.backward(t); });
}

}  // namespace

Var linear(Tape& tape, const Var& x, const Var& weight, const Var& bias, Storage stored) {
  return project(tape, x, weight, bias, 0, stored);
}

void linear_columns(Tape& tape, const Var& x, const Var& weight, const Var& bias, std::span<const std::int64_t> widths,
                    std::span<Var> parts, Storage stored) {
  const std::int64_t stride = tape.backend().plan(ProjectionCall{as_matrix(x.value), {&weight.value, 1}}).row_stride;
  const std::int64_t own = stride == weight.shape()[0] ? 0 : stride;
  tape.split_columns(project(tape, x, weight, bias, own, stored), widths, parts);
}

namespace {

Projections checked_projections(Tape& tape, const Var& x, std::span<const Var> weights, std::span<const Var> biases) {
  const Check check(tape, "linear_many", widened(x.value.dtype));
  check.that(!weights.empty() && weights.size() <= max_projections, "from one to five projections of an input at once");
  check.rows("x", x.value, x.shape(), x.value.dtype);
  Projections projections{x, {}, {}, {}, weights.size(), {}};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    check.weight("weight", weights[i].value, {Check::any, x.shape().last()});
    projections.weights[i] = weights[i];
    if (i < biases.size()) projections.biases[i] = biases[i];
    const Var& bias = projections.biases[i];
    if (bias.defined()) check.tensor("bias", bias.value, {weights[i].shape()[0]});
  }
  return projections;
}

}  // namespace

void linear_many(Tape& tape, const Var& x, std::span<const Var> weights, std::span<Var> results,
                 std::span<const Var> biases, Storage stored) {
  Projections projections = checked_projections(tape, x, weights, biases);
  const std::size_t count = weights.size();
  Tensor w[max_projections], b[max_projections], y[max_projections];
  std::int64_t widths[max_projections], all = 0;
  for (std::size_t i = 0; i < count; ++i) {
    w[i] = weights[i].value;
    b[i] = projections.biases[i].value;
    widths[i] = weights[i].shape()[0];
    all += widths[i];
  }
  const Tensor in = as_matrix(x.value);
  const bool is_narrow = tape.may_store_narrow(stored) && stored_in(tape, {in, {w, count}}) == DType::bf16;
  if (is_narrow) projections.together = tape.result(x.shape().with_last(all), DType::bf16, {x, weights.front()});
  for (std::size_t i = 0; i < count && !is_narrow; ++i) {
    const Var& bias = projections.biases[i];
    results[i] = tape.result(x.shape().with_last(widths[i]), widened(x.value.dtype), {x, weights[i], bias});
    projections.results[i] = results[i];
  }
  for (std::size_t i = 0; i < count; ++i)
    y[i] = is_narrow ? columns_of(projections.together.value, weights, i) : as_matrix(results[i].value);
  const KeptInput kept = keep(tape, x, {w, count});
  projections.kept = kept.numbers;
  tape.backend().linear_forward_many(in, {w, count}, {b, count}, {y, count}, kept);
  const std::span<const Var> outputs = is_narrow ? std::span<const Var>(&projections.together, 1) : results;
  tape.record("linear_many", outputs, [projections](Tape& t) { projections.backward(t); });
  if (is_narrow) tape.split_columns(projections.together, {widths, count}, results);
}

namespace {

/// What the backward pass through the gated MLP needs.
struct GatedMlp {
  Var x, gate, up, down, y;
  Tensor g, u, h;  // matrices

  void backward(Tape& t) const {
    Backend& backend = t.backend();
    const Tensor in = as_matrix(x.value), dy = as_matrix(t.upstream(y));
    const Tensor dgate_up[] = {t.scratch(g.shape, g.dtype), t.scratch(g.shape, g.dtype)};
    const Tensor weights[] = {gate.value, up.value};
    const Grad ddown = t.side_stream_gradient(down),
               dweights[] = {t.side_stream_gradient(gate), t.side_stream_gradient(up)};
    {
      const SideStream side_stream(backend);
      backend.linear_gradients({&dy, 1}, h, {&ddown, 1}, {});
    }
    backend.swiglu_gate_up_backward(dy, down.value, g, u, dgate_up[0], dgate_up[1]);
    {
      const SideStream side_stream(backend);
      backend.linear_gradients(dgate_up, in, dweights, {});
    }
    backend.gemm_sum(dgate_up, weights, as_matrix(t.gradient(x)));
  }
};

/// Whether what lies between the products of a gated MLP is stored as bfloat16: the gate's alone must be large enough,
/// since smaller ones are one launch with what follows.
bool is_narrow_inside(const Tape& tape, const Var& x, const Var& gate) {
  return tape.may_store_narrow(Storage::narrow) &&
         tape.backend().plan(ProjectionCall{as_matrix(x.value), {&gate.value, 1}}).stored == Storage::narrow;
}

Var narrow_gated_mlp(Tape& tape, const Var& x, const Var& gate, const Var& up, const Var& down) {
  const Var weights[] = {gate, up};
  Var lifted[2];
  linear_many(tape, x, weights, lifted, {}, Storage::narrow);
  return linear(tape, silu_multiply(tape, lifted[0], lifted[1]), down);
}

}  // namespace

Var gated_mlp(Tape& tape, const Var& x, const Var& gate, const Var& up, const Var& down) {
  if (is_narrow_inside(tape, x, gate)) return narrow_gated_mlp(tape, x, gate, up, down);
  const Check check(tape, "gated_mlp", x.value.dtype);
  check.rows("x", x.value, x.shape());
  check.weight("gate", gate.value, {Check::any, x.shape().last()});
  const std::int64_t inner = gate.shape()[0], outputs = down.shape()[0], rows = x.value.rows();
  check.weight("up", up.value, gate.shape());
  check.weight("down", down.value, {Check::any, inner});
  const Var y = tape.result(x.shape().with_last(outputs), x.value.dtype, {x, gate, up, down});
  GatedMlp mlp{x, gate, up, down, y, {}, {}, {}};
  for (Tensor* kept : {&mlp.g, &mlp.u, &mlp.h}) *kept = tape.scratch({rows, inner}, x.value.dtype);
  tape.backend().swiglu_gate_up(as_matrix(x.value), gate.value, up.value, mlp.g, mlp.u, mlp.h);
  tape.backend().gemm(false, true, 1.0, mlp.h, down.value, 0.0, as_matrix(y.value));
  return check.recorded(y, [mlp](Tape& t) { mlp.backward(t); });
}

}  // namespace afterglow
