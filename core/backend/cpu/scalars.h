// Small functions that kernels of several files use.
#pragma once
#include <cmath>

namespace afterglow {

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

}  // namespace afterglow
