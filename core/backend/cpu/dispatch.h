// Picks float or double once at the top of a kernel: with_type(tensor, [&]<class T>(T) { ... }).
#pragma once
#include "core/tensor/tensor.h"

namespace afterglow {

template <class Body>
decltype(auto) with_type(const Tensor& tensor, const Body& body) {
  return tensor.dtype == DType::f64 ? body(double{}) : body(float{});
}

/// How many rows of `columns` elements make one task of the thread pool; depends on the shape alone.
inline std::int64_t row_grain(std::int64_t columns) {
  const std::int64_t rows = 8192 / (columns > 0 ? columns : 1);
  return rows > 1 ? rows : 1;
}

}  // namespace afterglow
