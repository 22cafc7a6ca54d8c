// Norms and their gradients.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/ops/check.h"
#include "core/ops/ops.h"

namespace afterglow {
namespace {

/// Notes the backward pass through y = rms_norm(x). `is_first`: no other operation has read x before.
void record_rms_norm(Tape& tape, const Var& x, const Var& weight, const Tensor& inverse, const Var& y, bool is_first) {
  tape.record("rms_norm", y, [x, weight, inverse, y, is_first](Tape& t) {
    const BasedGrad dx = is_first ? t.whole_gradient_onto(x) : t.gradient_onto(x);
    const Grad dweight = t.side_stream_gradient(weight);
    t.backend().rms_norm_backward({Normed::plain, x.value, {}, weight.value, 0, {}, {}, inverse, {}},
                                  {t.upstream(y), dx.base, dx.grad, {}, dx.narrow, dweight});
  });
}

constexpr std::size_t max_groups = 64;

}  // namespace

Var join_columns(Tape& tape, std::span<const Var> parts) {
  const Check check(tape, "join_columns", parts.front().value.dtype);
  check.that(parts.size() <= max_groups, "at most 64 parts are joined");
  std::array<Var, max_groups> kept;
  std::ranges::copy(parts, kept.begin());
  std::int64_t columns = 0;
  for (const Var& part : parts) {
    check.rows("part", part.value, parts.front().shape().with_last(part.shape().last()));
    columns += part.shape().last();
  }
  const auto wanting = std::ranges::find_if(parts, [&](const Var& part) { return tape.wants_gradient(part); });
  const Var y = tape.result(parts.front().shape().with_last(columns), parts.front().value.dtype,
                            {wanting == parts.end() ? parts.front() : *wanting});
  const auto range_of = [](const Tensor& whole, std::int64_t column, const Var& part) {
    return as_matrix(whole).column_range(column, part.value.columns());
  };
  std::int64_t column = 0;
  for (const Var& part : parts) {
    tape.backend().copy(range_of(y.value, column, part), as_matrix(part.value));
    column += part.value.columns();
  }
  return check.recorded(y, [kept, count = parts.size(), y, range_of](Tape& t) {
    const Tensor dy = t.upstream(y);
    std::int64_t first = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const Grad grad = t.gradient(kept[i]);
      if (grad.wanted()) t.backend().accumulate(range_of(dy, first, kept[i]), as_matrix(grad));
      first += kept[i].value.columns();
    }
  });
}

Var rms_norm(Tape& tape, const Var& x, const Var& weight, double eps, Storage stored) {
  const Check check(tape, "rms_norm", x.value.dtype);
  check.tensor("x", x.value, x.shape());
  check.tensor("weight", weight.value, {x.shape().last()});
  const Var y = tape.result_for_projections(x, {x, weight}, stored);
  const Tensor inverse = tape.scratch({x.value.rows()}, x.value.dtype);
  tape.backend().rms_norm({Normed::plain, x.value, {}, weight.value, eps, {}, y.value, inverse, y.rounded});
  record_rms_norm(tape, x, weight, inverse, y, false);
  return y;
}

NormedSum add_rms_norm(Tape& tape, const Var& a, const Var& b, const Var& weight, double eps, Storage stored) {
  const Check check(tape, "add_rms_norm", a.value.dtype);
  check.tensor("a", a.value, a.shape());
  check.tensor("b", b.value, a.shape());
  check.tensor("weight", weight.value, {a.shape().last()});
  const Var sum = tape.result(a.shape(), a.value.dtype, {a, b});
  const Var y = tape.result_for_projections(sum, {sum, weight}, stored);
  const Tensor inverse = tape.scratch({a.value.rows()}, a.value.dtype);
  tape.backend().rms_norm({Normed::sum, a.value, b.value, weight.value, eps, sum.value, y.value, inverse, y.rounded});
  tape.record("add", sum, [a, b, sum](Tape& t) {
    const Tensor dsum = t.upstream(sum), narrow = t.narrow_upstream(sum);
    t.pass_gradient(a, dsum, narrow);
    t.pass_gradient(b, dsum, narrow);
  });
  record_rms_norm(tape, sum, weight, inverse, y, true);
  return {sum, y};
}

Var unit_norm(Tape& tape, const Var& x, double eps) {
  const Check check(tape, "unit_norm", x.value.dtype);
  check.tensor("x", x.value, x.shape());
  const Var y = tape.result(x.shape(), x.value.dtype, {x});
  const Tensor norms = tape.scratch({x.value.rows()}, x.value.dtype);
  tape.backend().unit_norm(x.value, eps, y.value, norms);
  return check.recorded(y, [x, norms, eps, y](Tape& t) {
    t.backend().unit_norm_backward(x.value, eps, norms, t.upstream(y), t.gradient(x));
  });
}

// The mean over n numbers is the sum over n, so that a weight of n^-1/2 makes a root of the sum of a root of the mean.
Var l2_norm(Tape& tape, const Var& x, double eps) {
  const auto width = static_cast<double>(x.shape().last());
  return rms_norm(tape, x, filled(tape, {x.shape().last()}, x.value.dtype, 1.0 / std::sqrt(width)), eps / width);
}

Var group_rms_norm(Tape& tape, const Var& x, const Var& weight, double eps, std::int64_t groups) {
  const Check check(tape, "group_rms_norm", x.value.dtype);
  const std::int64_t width = x.shape().last();
  check.that(groups > 0 && groups <= static_cast<std::int64_t>(max_groups) && width % groups == 0,
             "from 1 to 64 groups must divide the columns of x");
  check.tensor("weight", weight.value, {width});
  if (groups == 1) return rms_norm(tape, x, weight, eps);
  const auto count = static_cast<std::size_t>(groups);
  const std::array<std::int64_t, max_groups> widths = [&] {
    std::array<std::int64_t, max_groups> all{};
    all.fill(width / groups);
    return all;
  }();
  std::array<Var, max_groups> parts, weights;
  tape.split_columns(x, std::span(widths).first(count), parts);
  tape.split_columns(tape.reshape(weight, {1, width}), std::span(widths).first(count), weights);
  for (std::size_t i = 0; i < count; ++i) {
    const Var own = tape.reshape(contiguous(tape, weights[i]), {width / groups});
    parts[i] = rms_norm(tape, contiguous(tape, parts[i]), own, eps);
  }
  return join_columns(tape, std::span(parts).first(count));
}

Var gated_rms_norm(Tape& tape, const Var& x, const Var& z, const Var& weight, double eps) {
  const DType stored = x.value.dtype;
  const Check check(tape, "gated_rms_norm", widened(stored));
  check.tensor("x", x.value, x.shape(), stored);
  check.rows("z", z.value, x.shape(), stored);
  check.tensor("weight", weight.value, {x.shape().last()});
  Var y = tape.result(x.shape(), stored, {x, z, weight});
  tape.make_room_for_rounded(y, true);
  const Tensor inverse = tape.scratch({x.value.rows()}, widened(stored));
  tape.backend().rms_norm({Normed::gated, x.value, z.value, weight.value, eps, {}, y.value, inverse, y.rounded});
  return check.recorded(y, [x, z, weight, inverse, y](Tape& t) {
    const Grad dx = t.gradient(x), dz = t.gradient(z), dweight = t.side_stream_gradient(weight);
    t.backend().rms_norm_backward({Normed::gated, x.value, z.value, weight.value, 0, {}, {}, inverse, {}},
                                  {t.upstream(y), {}, dx, dz, {}, dweight});
  });
}

Var gated_heads(Tape& tape, const Var& x, const Var& z, const Var& weight, double eps) {
  const DType stored = x.value.dtype;
  const Check check(tape, "gated_heads", widened(stored));
  check.tensor("x", x.value, {Check::any, Check::any, Check::any, Check::any}, stored);
  const Shape& s = x.shape();
  check.rows("z", z.value, {s[0], s[1], s[2] * s[3]}, stored);
  if (weight.defined() && weight.shape() != Shape{s[3]}) check.tensor("weight", weight.value, {s[2] * s[3]});
  const Var y = tape.result(s, stored, {x, z, weight});
  const Tensor inverse = weight.defined() ? tape.scratch({s[0] * s[1] * s[2]}, widened(stored)) : Tensor();
  tape.backend().gated_heads(x.value, z.value, weight.value, eps, y.value, inverse);
  return check.recorded(y, [x, z, weight, inverse, y](Tape& t) {
    const Grad dx = t.gradient(x), dz = t.gradient(z), dweight = t.side_stream_gradient(weight);
    t.backend().gated_heads_backward(x.value, z.value, weight.value, inverse, t.upstream(y), dx, dz, dweight);
  });
}

Var normed_heads(Tape& tape, const Var& x, const Var& z, const Var& weight, double eps) {
  const Var y = z.defined() ? gated_heads(tape, x, z, weight, eps) : rms_norm(tape, x, weight, eps);
  const Shape& s = y.shape();
  return tape.reshape(y, {s[0], s[1], s[2] * s[3]});
}

Var layer_norm(Tape& tape, const Var& x, const Var& weight, const Var& bias, double eps) {
  const Check check(tape, "layer_norm", x.value.dtype);
  check.tensor("x", x.value, x.shape());
  check.tensor("weight", weight.value, {x.shape().last()});
  check.tensor("bias", bias.value, {x.shape().last()});
  const Var y = tape.result(x.shape(), x.value.dtype, {x, weight, bias});
  const Tensor moments = tape.scratch({x.value.rows(), 2}, x.value.dtype);
  tape.backend().layer_norm(x.value, weight.value, bias.value, eps, y.value, moments);
  return check.recorded(y, [x, weight, bias, moments, y](Tape& t) {
    const Grad dx = t.gradient(x), dweight = t.side_stream_gradient(weight), dbias = t.side_stream_gradient(bias);
    t.backend().layer_norm_backward(x.value, weight.value, moments, t.upstream(y), dx, dweight, dbias);
  });
}

}  // namespace afterglow
