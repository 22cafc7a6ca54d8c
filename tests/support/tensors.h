// Tensors of a file from lists of numbers.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/io/host_tensor.h"

namespace afterglow {

template <class Value>
HostTensor tensor_of(std::string name, std::vector<std::int64_t> shape, const std::vector<Value>& values) {
  return make_tensor(std::move(name), std::move(shape), std::span<const Value>(values));
}

}  // namespace afterglow
