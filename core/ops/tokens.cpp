// Embedding and cross-entropy, also of a head whose logits never exist at once, and their gradients.
#include <algorithm>
#include <optional>

#include "core/ops/check.h"
#include "core/ops/ops.h"

namespace afterglow {

Var embedding(Tape& tape, const Tensor& tokens, const Var& table) {
  const DType dtype = widened(table.value.dtype);
  const Check check(tape, "embedding", dtype);
  check.tensor("tokens", tokens, {Check::any, Check::any}, DType::i32);
  check.weight("table", table.value, {Check::any, Check::any});
  const Var y = tape.result({tokens.shape[0], tokens.shape[1], table.shape()[1]}, dtype, {table});
  tape.backend().gather_rows(tokens, table.value, {}, y.value);
  return check.recorded(y, [tokens, table, y](Tape& t) {
    const Tensor dy = t.upstream(y);
    const Grad dtable = t.side_stream_gradient(table);
    // The last of all gradients stays on the main stream; the gradient of a head that shares the table does not.
    std::optional<SideStream> side_stream;
    if (dtable.accumulate) side_stream.emplace(t.backend());
    t.backend().embedding_backward(tokens, dy, dtable);
  });
}

CrossEntropy cross_entropy(Tape& tape, const Var& logits, const Tensor& targets) {
  const Check check(tape, "cross_entropy", logits.value.dtype);
  check.tensor("logits", logits.value, {Check::any, Check::any, Check::any});
  check.tensor("targets", targets, {logits.shape()[0], logits.shape()[1]}, DType::i32);
  const CrossEntropy result{tape.result({1}, logits.value.dtype, {logits}), tape.scratch({1}, DType::i32),
                            tape.scratch({1}, DType::i32), tape.scratch(logits.shape(), logits.value.dtype)};
  tape.backend().cross_entropy(logits.value, targets, result.probabilities, result.loss.value, result.correct,
                               result.counted);
  tape.record(
      "cross_entropy", result.loss,
      [logits, targets, loss = result.loss, counted = result.counted, probabilities = result.probabilities](Tape& t) {
        t.backend().cross_entropy_backward(probabilities, targets, counted, t.upstream(loss), t.gradient(logits));
      });
  return result;
}

namespace {

/// Rows [first, first + count) of a contiguous matrix or vector; undefined ones stay so.
Tensor some_rows(const Tensor& tensor, std::int64_t first, std::int64_t count) {
  if (!tensor.defined()) return {};
  const bool is_vector = tensor.shape.rank() == 1;
  const std::int64_t width = is_vector ? 1 : tensor.columns();
  auto* begin = tensor.as<std::byte>() + static_cast<std::size_t>(first * width) * size_of(tensor.dtype);
  return {begin, is_vector ? Shape{count} : Shape{count, width}, tensor.dtype};
}

/// Equal chunks of rows, whole tiles of the products' where there is room for one.
std::int64_t rows_of_chunk(std::int64_t rows, std::int64_t most) {
  constexpr std::int64_t tile = 128;
  const std::int64_t chunks = (rows + most - 1) / most, each = (rows + chunks - 1) / chunks;
  const std::int64_t whole = (each + tile - 1) / tile * tile;
  return whole <= most ? std::min(whole, rows) : each;
}

/// A head and its loss, chunk by chunk. The logits of a chunk become their own gradient.
struct ChunkedHead {
  Tensor x, weight, targets;      ///< [n,d], [V,d], [n]
  Tensor losses, hits;            ///< [n]
  Tensor dx = {}, dweight = {};   ///< where wanted
  Tensor logits = {}, kept = {};  ///< of a chunk, [rows,V]

  void run(Backend& backend) const {
    const std::int64_t rows = x.rows(), each = logits.rows();
    for (std::int64_t first = 0; first < rows; first += each) run_chunk(backend, first, std::min(each, rows - first));
  }

 private:
  void run_chunk(Backend& backend, std::int64_t first, std::int64_t count) const {
    const Tensor in = some_rows(x, first, count), own = some_rows(logits, 0, count);
    const Tensor own_kept = kept.defined() && backend.plan(ProjectionCall{in, {&weight, 1}}).kept > 0 ? kept : Tensor{};
    backend.linear_forward_many(in, {&weight, 1}, {}, {&own, 1}, {own_kept});
    const bool is_trained = dx.defined() || dweight.defined();
    backend.cross_entropy_rows(own, some_rows(targets, first, count), is_trained, some_rows(losses, first, count),
                               some_rows(hits, first, count));
    if (!is_trained) return;
    const Grad into_weight{dweight, first > 0}, into_x{some_rows(dx, first, count), false};
    backend.linear_backward({{&own, 1}, {&weight, 1}, in, own_kept, {&into_weight, 1}, {}, into_x});
    backend.join_side_stream();  // the next chunk's logits lie where these do
  }
};

/// The gradients that the forward pass summed, and the factor that they still lack.
struct HeadGradients {
  Var hidden, weight, loss;
  Tensor counted, dx, dweight;

  void pass(Tape& t) const {
    Backend& backend = t.backend();
    const Tensor dloss = t.upstream(loss);
    if (dweight.defined()) {
      const Grad into = t.side_stream_gradient(weight);
      const SideStream side_stream(backend);
      backend.cross_entropy_scale(dweight, dloss, counted, into);
    }
    if (!dx.defined()) return;
    backend.cross_entropy_scale(dx, dloss, counted, {dx, false});
    t.pass_gradient(hidden, dx.reshaped(hidden.shape()));
  }
};

}  // namespace

CrossEntropy head_cross_entropy(Tape& tape, const Var& hidden, const Var& weight, const Tensor& targets,
                                std::int64_t logits) {
  const DType dtype = hidden.value.dtype;
  const Check check(tape, "head_cross_entropy", dtype);
  check.tensor("hidden", hidden.value, {Check::any, Check::any, Check::any});
  check.tensor("weight", weight.value, {Check::any, hidden.shape().last()});
  check.tensor("targets", targets, {hidden.shape()[0], hidden.shape()[1]}, DType::i32);
  Backend& backend = tape.backend();
  const std::int64_t rows = hidden.value.rows(), width = hidden.shape().last(), vocabulary = weight.shape()[0];
  const CrossEntropy result{
      tape.result({1}, dtype, {hidden, weight}), tape.scratch({1}, DType::i32), tape.scratch({1}, DType::i32), {}};
  ChunkedHead head{as_matrix(hidden.value), weight.value, targets.reshaped({rows}), tape.scratch({rows}, dtype),
                   tape.scratch({rows}, DType::i32)};
  if (tape.wants_gradient(hidden)) head.dx = tape.scratch({rows, width}, dtype);
  if (tape.wants_gradient(weight)) head.dweight = tape.scratch(weight.shape(), dtype);
  const std::int64_t each = rows_of_chunk(rows, std::max<std::int64_t>(1, logits / vocabulary));
  head.logits = tape.scratch({each, vocabulary}, dtype);
  const bool is_trained = head.dx.defined() || head.dweight.defined();
  const ProjectionCall chunk{some_rows(head.x, 0, each), {&weight.value, 1}};
  const std::int64_t kept = is_trained ? backend.plan(chunk).kept : 0;
  if (kept > 0) head.kept = tape.scratch({kept}, dtype);
  head.run(backend);
  backend.cross_entropy_mean(head.losses, head.hits, result.loss.value, result.correct, result.counted);
  const HeadGradients gradients{hidden, weight, result.loss, result.counted, head.dx, head.dweight};
  tape.record("head_cross_entropy", result.loss, [gradients](Tape& t) { gradients.pass(t); });
  return result;
}

AnsweredRows answered_rows(Tape& tape, const Tensor& targets, std::int64_t most) {
  const Check check(tape, "answered_rows", DType::i32);
  check.tensor("targets", targets, {Check::any, Check::any}, DType::i32);
  const AnsweredRows rows{tape.scratch({most}, DType::i32), tape.scratch({1, most}, DType::i32),
                          tape.scratch({targets.elements()}, DType::i32)};
  tape.backend().answered_rows(targets, rows.places, rows.targets, rows.ranks);
  return rows;
}

Var gather_rows(Tape& tape, const Var& x, const Var& y, const AnsweredRows& rows) {
  const DType dtype = x.value.dtype;
  const Check check(tape, "gather_rows", dtype);
  check.tensor("x", x.value, {Check::any, Check::any, Check::any});
  if (y.defined()) check.tensor("y", y.value, x.shape());
  check.tensor("ranks", rows.ranks, {x.value.rows()}, DType::i32);
  const Var z = tape.result({1, rows.places.elements(), x.shape().last()}, dtype, {x, y});
  tape.backend().gather_rows(rows.places, x.value, y.value, z.value);
  return check.recorded(z, [x, y, z, ranks = rows.ranks](Tape& t) {
    const Tensor dx = t.scratch(x.shape(), z.value.dtype);
    t.backend().gather_rows(ranks, t.upstream(z), {}, dx);
    t.pass_gradient(x, dx);
    if (y.defined()) t.pass_gradient(y, dx);
  });
}

}  // namespace afterglow
