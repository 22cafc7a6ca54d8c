// Scalar functions that kernels of several files use.
#pragma once
#include <cmath>

namespace afterglow {

template <class T>
T sigmoid(T x) {
  return T{1} / (T{1} + std::exp(-x));
}
/// Assigns or adds, as a `Grad` says.
template <class T>
void put(T* target, T value, bool accumulate) {
  *target = accumulate ? *target + value : value;
}

}  // namespace afterglow
