// Products of small matrices on the calling thread, for kernels that work block by block. Compiled once, in
// cpu/matmul.cpp.
#pragma once
#include <cstdint>

namespace afterglow {

/// A row-major view that owns no memory; `stride` elements from row to row.
template <class T>
struct Block {
  T* data;
  std::int64_t rows, columns, stride;
  Block(T* address, std::int64_t row_count, std::int64_t column_count, std::int64_t row_stride)
      : data(address), rows(row_count), columns(column_count), stride(row_stride) {}
  Block(T* address, std::int64_t row_count, std::int64_t column_count)
      : Block(address, row_count, column_count, column_count) {}
  Block row_range(std::int64_t begin, std::int64_t count) const {
    return {data + begin * stride, count, columns, stride};
  }
  Block column_range(std::int64_t begin, std::int64_t count) const { return {data + begin, rows, count, stride}; }
};

/// c += op(a) op(b), or c = op(a) op(b) when not `accumulate`. Allocates nothing. T is float or double.
template <class T>
void product(bool transpose_a, bool transpose_b, const Block<T>& a, const Block<T>& b, bool accumulate,
             const Block<T>& c);

}  // namespace afterglow
