// What every operation asks of its inputs: shapes, types, adjacency. The messages name the place in the model, the
// operation, what it expected and what it got. The gradient of the result is recorded under the same name.
#pragma once
#include <string>

#include "core/autograd/tape.h"

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
  /// As `tensor`, but the rows may be strided.
  void rows(const char* name, const Tensor& tensor, const Shape& expected) const {
    rows(name, tensor, expected, dtype_);
  }
  void rows(const char* name, const Tensor& tensor, const Shape& expected, DType dtype) const;
  void that(bool condition, const char* message) const {
    if (!condition) fail(message);
  }
  [[noreturn]] void fail(const std::string& message) const;
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

/// All axes but the last taken together: [rows, columns].
Tensor as_matrix(const Tensor& tensor);
Grad as_matrix(const Grad& grad);

}  // namespace afterglow
