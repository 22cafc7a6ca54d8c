// What every operation asks of its inputs: shapes, types, adjacency. The messages name the place in the model, the
// operation, what it expected and what it got. The gradient of the result is recorded under the same name.
#pragma once
#include <concepts>
#include <string>

#include "core/autograd/tape.h"
#include "core/io/error.h"

namespace afterglow {

class Check {
 public:
  /// `dtype` is the type that all floating inputs must have.
  Check(Tape& tape, const char* operation, DType dtype) : tape_(&tape), operation_(operation), dtype_(dtype) {}

  static constexpr std::int64_t any = -1;  ///< in an expected shape: every extent will do
  /// Contiguous, of this shape and of the common type.
  void tensor(const char* name, const Tensor& tensor, const Shape& expected) const {
    this->tensor(name, tensor, expected, dtype_);
  }
  void tensor(const char* name, const Tensor& tensor, const Shape& expected, DType dtype) const;
  /// A weight that its kernel also takes as bfloat16.
  void weight(const char* name, const Tensor& tensor, const Shape& expected) const {
    this->tensor(name, tensor, expected, tensor.dtype == DType::bf16 ? DType::bf16 : dtype_);
  }
  /// As `tensor`, but the rows may be strided.
  void rows(const char* name, const Tensor& tensor, const Shape& expected) const {
    rows(name, tensor, expected, dtype_);
  }
  void rows(const char* name, const Tensor& tensor, const Shape& expected, DType dtype) const;
  void that(bool condition, const char* message) const {
    if (!condition) fail(message);
  }
  /// Of parts as `concat` takes them.
  template <class... Message>
  [[noreturn]] void fail(const Message&... message) const {
    const std::string place = tape_->scope().empty() ? "" : tape_->scope() + ": ";
    throw Error(ExitCode::failure, place, operation_, ": ", message...);
  }
  /// Of a scan that goes on from a state.
  void may_resume(bool has_state) const {
    that(has_state, "resuming needs a state");
    that(!tape_->recording(), "has no gradient through the state it resumes from; begin the tape without recording");
  }
  /// Records how the gradient of the operation's result is found (`Tape::record`), and returns the result.
  template <class Backward>
  Var recorded(const Var& result, Backward backward) const {
    tape_->record(operation_, result, backward);
    return result;
  }

 private:
  Tape* tape_;
  const char* operation_;
  DType dtype_;
};

/// The gradients of these values, asked for in this order, in which the kernel writes them.
template <class Grads>
Grads gradients_of(Tape& tape, const std::same_as<Var> auto&... values) {
  return Grads{tape.gradient(values)...};
}

/// All axes but the last taken together: [rows, columns].
Tensor as_matrix(const Tensor& tensor);
Grad as_matrix(const Grad& grad);

}  // namespace afterglow
