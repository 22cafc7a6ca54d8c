// SIMD packs of 64 bytes, for kernels that store a matrix as rows of whole packs and vectorise along its columns.
#pragma once
#include <Eigen/Core>
#include <algorithm>
#include <cstdint>

namespace afterglow {

template <class T>
inline constexpr std::int64_t lanes = 64 / sizeof(T);
template <class T>
using Pack = Eigen::Array<T, lanes<T>, 1>;
template <class T>
Eigen::Map<Pack<T>, Eigen::Aligned64> pack(T* address) {
  return Eigen::Map<Pack<T>, Eigen::Aligned64>(address);
}
template <class T>
Eigen::Map<const Pack<T>, Eigen::Aligned64> pack(const T* address) {
  return Eigen::Map<const Pack<T>, Eigen::Aligned64>(address);
}

/// Loads `count` <= lanes numbers from an unaligned address and fills the other lanes with zeros.
template <class T>
Pack<T> first_lanes(const T* address, std::int64_t count) {
  if (count == lanes<T>) return Eigen::Map<const Pack<T>>(address);
  Pack<T> part = Pack<T>::Zero();
  std::copy_n(address, count, part.data());
  return part;
}
/// Writes the first `count` lanes to an unaligned address, or adds them to what is there.
template <class T>
void put_first_lanes(T* address, std::int64_t count, const Pack<T>& values, bool accumulate) {
  const Pack<T> result = accumulate ? Pack<T>(first_lanes(address, count) + values) : values;
  if (count == lanes<T>) {
    Eigen::Map<Pack<T>>{address} = result;
  } else {
    std::copy_n(result.data(), count, address);
  }
}

template <class T>
T sum_of(const Pack<T>& p) {
  constexpr int half = lanes<T> / 2;
  const Eigen::Array<T, half, 1> folded = p.template head<half>() + p.template tail<half>();
  return folded.sum();
}

/// `width` rounded up to whole packs.
template <class T>
std::int64_t padded_to_packs(std::int64_t width) {
  return (width + lanes<T> - 1) / lanes<T> * lanes<T>;
}

}  // namespace afterglow
