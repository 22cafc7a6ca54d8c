// Embedding and cross-entropy and their gradients.
#include <optional>

#include "core/ops/check.h"
#include "core/ops/ops.h"

namespace afterglow {

Var embedding(Tape& tape, const Tensor& tokens, const Var& table) {
  const Check check(tape, "embedding", table.value.dtype);
  check.tensor("tokens", tokens, {Check::any, Check::any}, DType::i32);
  check.tensor("table", table.value, {Check::any, Check::any});
  const Var y = tape.result({tokens.shape[0], tokens.shape[1], table.shape()[1]}, table.value.dtype, {table});
  tape.backend().embedding(tokens, table.value, y.value);
  tape.record("embedding", y, [tokens, table, y](Tape& t) {
    const Tensor dy = t.upstream(y);
    const Grad dtable = t.gradient_beside(table);
    // Last of all gradients, so in order; but the gradient of a head that shares the table is found beside.
    std::optional<SideStream> beside;
    if (dtable.accumulate) beside.emplace(t.backend());
    t.backend().embedding_backward(tokens, dy, dtable);
  });
  return y;
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

}  // namespace afterglow
