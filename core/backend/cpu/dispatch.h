// Picks float or double once at the top of a kernel: with_type(tensor, [&]<class T>(T) { ... }); and small functions
// that kernels of several files use.
#pragma once
#include <cmath>

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

template <class T>
T sigmoid(T x) {
  return T{1} / (T{1} + std::exp(-x));
}
/// Assigns or adds a number or an array, as a `Grad` says.
template <class Target, class Value>
void put_into(Target&& target, const Value& value, bool accumulate) {
  if (accumulate) {
    target += value;
  } else {
    target = value;
  }
}
template <class T>
void put(T* target, T value, bool accumulate) {
  put_into(*target, value, accumulate);
}
/// Row `row` of a gradient that has `count` numbers in each.
template <class T>
void put_numbers(const Grad& grad, std::int64_t row, const T* values, std::int64_t count) {
  for (std::int64_t i = 0; grad.wanted() && i < count; ++i)
    put_into(grad.tensor.as<T>()[row * count + i], values[i], grad.accumulate);
}

}  // namespace afterglow
