// Checks of shapes and types, and their messages.
#include "core/ops/check.h"

namespace afterglow {
namespace {

bool agrees(const Shape& shape, const Shape& expected) {
  if (shape.rank() != expected.rank()) return false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (expected[axis] != Check::any && expected[axis] != shape[axis]) return false;
  }
  return true;
}

std::string text_of(const Shape& expected) {
  std::string text = "[";
  for (int axis = 0; axis < expected.rank(); ++axis) {
    if (axis > 0) text += ", ";
    text += expected[axis] == Check::any ? "any" : std::to_string(expected[axis]);
  }
  return text + "]";
}

}  // namespace

void Check::tensor(const char* name, const Tensor& tensor, const Shape& expected, DType dtype) const {
  if (!agrees(tensor.shape, expected))
    fail(std::string(name) + " must be " + text_of(expected) + ", got " + tensor.shape.text());
  if (tensor.dtype != dtype) fail(std::string(name) + " must be " + name_of(dtype) + ", got " + name_of(tensor.dtype));
  if (!tensor.contiguous()) fail(std::string(name) + " must be contiguous, got columns of a wider tensor");
}

void Check::rows(const char* name, const Tensor& tensor, const Shape& expected, DType dtype) const {
  Tensor dense = tensor;
  dense.row_stride = dense.columns();
  this->tensor(name, dense, expected, dtype);
}

Tensor as_matrix(const Tensor& tensor) {
  Tensor matrix = tensor;
  matrix.shape = {tensor.rows(), tensor.columns()};
  return matrix;
}

Grad as_matrix(const Grad& grad) { return {grad.wanted() ? as_matrix(grad.tensor) : Tensor(), grad.accumulate}; }

}  // namespace afterglow
