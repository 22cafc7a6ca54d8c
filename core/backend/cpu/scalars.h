// Functions of single numbers that kernels of several files take.
#pragma once
#include <cmath>

namespace afterglow {

template <class T>
T sigmoid(T x) {
  return T{1} / (T{1} + std::exp(-x));
}
template <class T>
T silu_slope(T x) {
  const T s = sigmoid(x);
  return s * (T{1} + x * (T{1} - s));
}
/// Assigns or adds, as a `Grad` says.
template <class T>
void put(T* target, T value, bool accumulate) {
  *target = accumulate ? *target + value : value;
}

}  // namespace afterglow
