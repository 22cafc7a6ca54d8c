// A tensor is a plain view: an address in some back end's memory, a shape, a type. It owns nothing and copies freely;
// the owners are the arena (activations), the parameter store (weights) and HostArray-like vectors (tests, files).
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/tensor/immovable.h"
#include "core/tensor/shape.h"

namespace afterglow {

/// bf16: the type in which a GPU back end of that precision stores values between kernels (`Kernels::plan`),
/// and weights of a model that is only run (`ParameterStore::store_narrow`); captures never hold it.
enum class DType : std::uint8_t { f32, f64, i32, u8, bf16 };

/// The type of results computed from such numbers: float32 for bfloat16, otherwise the same type.
constexpr DType widened(DType dtype) { return dtype == DType::bf16 ? DType::f32 : dtype; }

std::size_t size_of(DType dtype);
const char* name_of(DType dtype);

/// Row-major. All axes but the last are contiguous rows; `row_stride` is the distance, in elements, from one row of the
/// last axis to the next, so that a range of columns of a wider tensor is a tensor too.
struct Tensor {
  void* data = nullptr;
  Shape shape;
  DType dtype = DType::f32;
  std::int64_t row_stride = 0;

  Tensor() = default;
  Tensor(void* address, const Shape& extents, DType type)
      : data(address), shape(extents), dtype(type), row_stride(extents.last()) {}

  bool defined() const { return data != nullptr; }
  bool contiguous() const { return row_stride == shape.last(); }
  std::int64_t elements() const { return shape.elements(); }
  std::int64_t rows() const { return shape.rows(); }
  std::int64_t columns() const { return shape.last(); }
  /// Bytes of the elements themselves (not of the gaps between strided rows).
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype); }

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  /// The same contiguous memory under another shape with as many elements.
  Tensor reshaped(const Shape& extents) const;
  /// Columns [begin, begin + count) of every row, sharing memory.
  Tensor column_range(std::int64_t begin, std::int64_t count) const;
  /// Index `i` of the first axis, sharing memory.
  Tensor at(std::int64_t i) const;
};

/// Where a kernel puts a gradient: `tensor = value`, or `tensor += value` when `accumulate`. An undefined tensor means
/// that this gradient is not wanted and the kernel skips it.
struct Grad {
  Tensor tensor;
  bool accumulate = false;
  bool wanted() const { return tensor.defined(); }
};

}  // namespace afterglow
