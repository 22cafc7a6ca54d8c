// Operations of forecasting models: series and their moments, tokens put in front, squared error, dropout.
#include "core/ops/check.h"
#include "core/ops/ops.h"

namespace afterglow {

SeriesMoments series_moments(Tape& tape, const Var& x, double eps) {
  const Check check(tape, "series_moments", x.value.dtype);
  check.tensor("x", x.value, {Check::any, Check::any, Check::any});
  const Shape shape{x.shape()[0], x.shape()[2]};
  const SeriesMoments result{tape.scratch(shape, x.value.dtype), tape.result(shape, x.value.dtype, {x})};
  tape.backend().series_moments(x.value, eps, result.mean, result.deviation.value);
  tape.record("series_moments", result.deviation, [x, mean = result.mean, deviation = result.deviation](Tape& t) {
    t.backend().series_moments_backward(x.value, mean, deviation.value, t.upstream(deviation), t.gradient(x));
  });
  return result;
}

Var series_normalise(Tape& tape, const Var& x, const Tensor& mean, const Var& deviation) {
  const Check check(tape, "series_normalise", x.value.dtype);
  check.tensor("x", x.value, {Check::any, Check::any, Check::any});
  const std::int64_t batch = x.shape()[0], length = x.shape()[1], channels = x.shape()[2];
  check.tensor("mean", mean, {batch, channels});
  check.tensor("deviation", deviation.value, {batch, channels});
  const Var z = tape.result({batch * channels, length}, x.value.dtype, {x, deviation});
  tape.backend().series_normalise(x.value, mean, deviation.value, z.value);
  return check.recorded(z, [x, deviation, z](Tape& t) {
    const Grad dx = t.gradient(x), ddeviation = t.gradient(deviation);
    t.backend().series_normalise_backward(z.value, deviation.value, t.upstream(z), dx, ddeviation);
  });
}

Var series_restore(Tape& tape, const Var& z, const Tensor& mean, const Var& deviation) {
  const Check check(tape, "series_restore", z.value.dtype);
  check.tensor("deviation", deviation.value, {Check::any, Check::any});
  const std::int64_t batch = deviation.shape()[0], channels = deviation.shape()[1];
  check.tensor("z", z.value, {batch * channels, Check::any});
  check.tensor("mean", mean, {batch, channels});
  const Var y = tape.result({batch, z.shape()[1], channels}, z.value.dtype, {z, deviation});
  tape.backend().series_restore(z.value, mean, deviation.value, y.value);
  return check.recorded(y, [z, deviation, y](Tape& t) {
    const Grad dz = t.gradient(z), ddeviation = t.gradient(deviation);
    t.backend().series_restore_backward(z.value, deviation.value, t.upstream(y), dz, ddeviation);
  });
}

Var prepend_tokens(Tape& tape, const Var& tokens, const Var& x) {
  const Check check(tape, "prepend_tokens", x.value.dtype);
  check.tensor("x", x.value, {Check::any, Check::any, Check::any});
  const std::int64_t count = x.shape()[0], length = x.shape()[1], width = x.shape()[2];
  check.tensor("tokens", tokens.value, {Check::any, width});
  const std::int64_t first = tokens.value.elements(), rest = length * width;
  const Var y = tape.result({count, tokens.shape()[0] + length, width}, x.value.dtype, {tokens, x});
  const Tensor rows = y.value.reshaped({count, first + rest}), front = rows.column_range(0, first);
  tape.backend().fill(front, 0.0);
  tape.backend().add_bias(front, tokens.value.reshaped({first}), front);
  tape.backend().copy(rows.column_range(first, rest), x.value.reshaped({count, rest}));
  return check.recorded(y, [tokens, x, y, count, first, rest](Tape& t) {
    const Tensor dy = t.upstream(y).reshaped({count, first + rest});
    const Grad dtokens = t.gradient(tokens);
    if (dtokens.wanted())
      t.backend().sum_rows(dy.column_range(0, first), {dtokens.tensor.reshaped({first}), dtokens.accumulate});
    const Grad dx = t.gradient(x);
    if (dx.wanted())
      t.backend().accumulate(dy.column_range(first, rest), {dx.tensor.reshaped({count, rest}), dx.accumulate});
  });
}

Var add_bias(Tape& tape, const Var& x, const Var& bias) {
  const Check check(tape, "add_bias", x.value.dtype);
  check.tensor("x", x.value, x.shape());
  check.tensor("bias", bias.value, {x.shape().last()});
  const Var y = tape.result(x.shape(), x.value.dtype, {x, bias});
  tape.backend().add_bias(x.value, bias.value, y.value);
  return check.recorded(y, [x, bias, y](Tape& t) {
    t.backend().accumulate(t.upstream(y), t.gradient(x));
    t.backend().sum_rows(as_matrix(t.upstream(y)), t.gradient(bias));
  });
}

Var contiguous(Tape& tape, const Var& x) {
  const Check check(tape, "contiguous", x.value.dtype);
  check.rows("x", x.value, x.shape());
  const Var y = tape.result(x.shape(), x.value.dtype, {x});
  tape.backend().copy(y.value, x.value);
  return check.recorded(y, [x, y](Tape& t) { t.backend().accumulate(t.upstream(y), t.gradient(x)); });
}

SquaredError squared_error(Tape& tape, const Var& prediction, const Tensor& truth) {
  const Check check(tape, "squared_error", prediction.value.dtype);
  check.tensor("prediction", prediction.value, prediction.shape());
  check.tensor("truth", truth, prediction.shape());
  const DType dtype = prediction.value.dtype;
  const SquaredError result{tape.result({1}, dtype, {prediction}), tape.scratch({1}, dtype)};
  tape.backend().squared_error(prediction.value, truth, result.loss.value, result.absolute);
  tape.record("squared_error", result.loss, [prediction, truth, loss = result.loss](Tape& t) {
    t.backend().squared_error_backward(prediction.value, truth, t.upstream(loss), t.gradient(prediction));
  });
  return result;
}

Var dropout(Tape& tape, const Var& x, const DropoutSource& source, std::uint32_t site) {
  if (source.rate == 0.0 || !source.counter.defined()) return x;
  const Check check(tape, "dropout", x.value.dtype);
  check.tensor("x", x.value, x.shape());
  check.tensor("counter", source.counter, {1}, DType::i32);
  check.that(source.rate > 0.0 && source.rate < 1.0, "the rate must be at least 0 and below 1");
  const Var y = tape.result(x.shape(), x.value.dtype, {x});
  tape.backend().dropout(x.value, source.rate, source.seed, site, source.counter, {y.value, false});
  return check.recorded(y, [x, y, source, site](Tape& t) {
    t.backend().dropout(t.upstream(y), source.rate, source.seed, site, source.counter, t.gradient(x));
  });
}

}  // namespace afterglow
