// Gates of recurrent layers.
#include <algorithm>

#include "core/ops/check.h"
#include "core/ops/ops.h"

namespace afterglow {

Var log_sigmoid(Tape& tape, const Var& x, double factor) {
  const Check check(tape, "log_sigmoid", x.value.dtype);
  check.rows("x", x.value, x.shape());
  const Var y = tape.result(x.shape(), x.value.dtype, {x});
  tape.backend().log_sigmoid(x.value, factor, y.value);
  return check.recorded(
      y, [x, factor, y](Tape& t) { t.backend().log_sigmoid_backward(x.value, factor, t.upstream(y), t.gradient(x)); });
}

Var log_decay(Tape& tape, const Var& x, const Var& A_log, const Var& bias) {
  const Check check(tape, "log_decay", x.value.dtype);
  check.rows("x", x.value, x.shape());
  check.tensor("A_log", A_log.value, {Check::any});
  check.that(A_log.value.elements() > 0 && x.shape().last() % A_log.value.elements() == 0,
             "A_log must have as many numbers as divide the columns of x");
  check.tensor("bias", bias.value, {x.shape().last()});
  const Var y = tape.result(x.shape(), x.value.dtype, {x, A_log, bias});
  tape.backend().log_decay(x.value, A_log.value, bias.value, y.value);
  return check.recorded(y, [x, A_log, bias, y](Tape& t) {
    const Grad dx = t.gradient(x), dA_log = t.side_stream_gradient(A_log), dbias = t.side_stream_gradient(bias);
    t.backend().log_decay_backward(x.value, A_log.value, bias.value, t.upstream(y), dx, dA_log, dbias);
  });
}

Var route(Tape& tape, const Var& x, const Tensor& bias, const Router& router) {
  const Check check(tape, "route", x.value.dtype);
  check.tensor("x", x.value, x.shape());
  const std::int64_t experts = x.shape().last();
  if (bias.defined()) check.tensor("bias", bias, {experts});
  check.that(router.groups > 0 && router.groups <= max_router_groups && experts % router.groups == 0,
             "from 1 to 64 groups must divide the number of experts");
  check.that(
      router.chosen > 0 && router.chosen <= std::min(router.groups, router.kept_groups) * (experts / router.groups),
      "as many experts as are chosen must be there");
  const Var y = tape.result(x.shape(), x.value.dtype, {x});
  tape.backend().route(x.value, bias, router, y.value);
  return check.recorded(y, [x, router, y](Tape& t) {
    t.backend().route_backward(x.value, router, y.value, t.upstream(y), t.gradient(x));
  });
}

Var multiply_rows(Tape& tape, const Var& x, const Var& factor, double offset) {
  const DType stored = x.value.dtype;
  const Check check(tape, "multiply_rows", widened(stored));
  check.tensor("x", x.value, x.shape(), stored);
  check.tensor("factor", factor.value, factor.shape());
  check.that(factor.value.elements() == x.value.rows(), "there must be one factor for every row of x");
  const Var y = tape.result(x.shape(), stored, {x, factor});
  tape.backend().multiply_rows(x.value, factor.value, offset, y.value);
  return check.recorded(y, [x, factor, offset, y](Tape& t) {
    const Grad dx = t.gradient(x), dfactor = t.gradient(factor);
    t.backend().multiply_rows_backward(x.value, factor.value, offset, t.upstream(y), dx, dfactor);
  });
}

// The gradient of a factor for every row is such a product, and the product's own gradient is such a multiplication.
Var row_products(Tape& tape, const Var& a, const Var& b) {
  const Check check(tape, "row_products", a.value.dtype);
  check.tensor("a", a.value, a.shape());
  check.tensor("b", b.value, a.shape());
  const Var y = tape.result(a.shape().with_last(1), a.value.dtype, {a, b});
  tape.backend().multiply_rows_backward(a.value, y.value, 0.0, b.value, {}, {y.value, false});
  tape.record("row_products", y, [a, b, y](Tape& t) {
    const std::pair<Var, Var> sides[] = {{a, b}, {b, a}};
    for (const auto& [to, other] : sides) {
      if (!t.wants_gradient(to)) continue;
      const Tensor gradient = t.scratch(to.shape(), to.value.dtype);
      t.backend().multiply_rows(other.value, t.upstream(y), 0.0, gradient);
      t.pass_gradient(to, gradient);
    }
  });
  return y;
}

}  // namespace afterglow
