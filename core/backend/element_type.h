// Picks the type of a tensor's elements among all that C++ knows, where a kernel takes any of them.
#pragma once
#include <cstdint>

#include "core/io/error.h"
#include "core/tensor/tensor.h"

namespace afterglow {

/// body(T{}) with the type T of the elements: with_element_type(dtype, [&]<class T>(T) { ... }).
template <class Body>
void with_element_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::f32:
      return body(float{});
    case DType::f64:
      return body(double{});
    case DType::i32:
      return body(std::int32_t{});
    case DType::u8:
      return body(std::uint8_t{});
    case DType::bf16:
      break;
  }
  throw Error(ExitCode::failure, "no kernel here takes numbers of type ", name_of(dtype));
}

}  // namespace afterglow
