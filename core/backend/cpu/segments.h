// Elementwise work on the CPU: tensors are walked in short segments that are fixed by the shape alone, each seen as an
// Eigen array, so that expressions vectorise and intermediate values stay on the stack.
#pragma once
#include <Eigen/Core>
#include <algorithm>
#include <initializer_list>

#include "core/backend/cpu/dispatch.h"
#include "core/backend/parallel.h"
#include "core/backend/scratch.h"

namespace afterglow {

inline constexpr std::int64_t segment_length = 1024;

/// `count` <= segment_length adjacent elements of a row.
struct Segment {
  std::int64_t row, column, count;
};

template <class T>
using ArrayMap = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>>;
/// Intermediate values of one segment, on the stack.
template <class T>
using Tile = Eigen::Array<T, Eigen::Dynamic, 1, Eigen::ColMajor, segment_length, 1>;

template <class T>
T* row_of(const Tensor& tensor, std::int64_t row) {
  return tensor.as<T>() + row * tensor.row_stride;
}
template <class T>
ArrayMap<T> part(const Tensor& tensor, const Segment& s) {
  return {row_of<T>(tensor, s.row) + s.column, s.count};
}
template <class T>
ArrayMap<T> whole_row(const Tensor& tensor, std::int64_t row) {
  return {row_of<T>(tensor, row), tensor.columns()};
}
/// A vector that belongs to the last axis (a bias, a weight), at the columns of the segment.
template <class T>
ArrayMap<T> columns_of(const Tensor& vector, const Segment& s) {
  return {vector.as<T>() + s.column, s.count};
}

/// Adjacent elements that are only read.
template <class T>
Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>> constant_row(const T* address, std::int64_t count) {
  return {address, count};
}

/// Writes or accumulates one segment of a gradient; skipped where it is not wanted.
template <class T, class Values>
void put(const Grad& grad, const Segment& s, const Values& values) {
  if (grad.wanted()) put_into(part<T>(grad.tensor, s), values, grad.accumulate);
}

/// Writes or accumulates a whole row of a gradient.
template <class T, class Values>
void put_row(const Grad& grad, std::int64_t row, const Values& values) {
  if (grad.wanted()) put_into(whole_row<T>(grad.tensor, row), values, grad.accumulate);
}

/// Calls body(row) for every row of `columns` elements.
template <class Body>
void for_rows(ThreadPool& pool, std::int64_t rows, std::int64_t columns, const Body& body) {
  pool.for_ranges(rows, row_grain(columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) body(row);
  });
}

/// Calls body(segment) row by row; all tensors have `rows` rows of `columns` elements, strided or not.
template <class Body>
void for_row_segments(ThreadPool& pool, std::int64_t rows, std::int64_t columns, const Body& body) {
  for_rows(pool, rows, columns, [&](std::int64_t row) {
    for (std::int64_t column = 0; column < columns; column += segment_length)
      body(Segment{row, column, std::min(segment_length, columns - column)});
  });
}

/// The same for elementwise work on tensors of one shape: when all are contiguous the body gets them as one long row.
/// Undefined tensors in the list are ignored.
template <class Body>
void for_segments(ThreadPool& pool, std::initializer_list<Tensor> tensors, const Body& body) {
  const Tensor& first = *tensors.begin();
  const bool contiguous = std::ranges::all_of(tensors, [](const Tensor& t) { return !t.defined() || t.contiguous(); });
  if (!contiguous) return for_row_segments(pool, first.rows(), first.columns(), body);
  pool.for_ranges(first.elements(), 8 * segment_length, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += segment_length) body(Segment{0, i, std::min(segment_length, end - i)});
  });
}

/// The same with the type of the tensors: body(T{}, segment), or body(T{}, row).
template <class Body>
void for_typed_segments(ThreadPool& pool, std::initializer_list<Tensor> tensors, const Body& body) {
  with_type(*tensors.begin(),
            [&](auto type) { for_segments(pool, tensors, [&](const Segment& s) { body(type, s); }); });
}
template <class Body>
void for_typed_row_segments(ThreadPool& pool, const Tensor& typed, std::int64_t rows, std::int64_t columns,
                            const Body& body) {
  with_type(typed, [&](auto type) { for_row_segments(pool, rows, columns, [&](const Segment& s) { body(type, s); }); });
}
template <class Body>
void for_typed_rows(ThreadPool& pool, const Tensor& typed, std::int64_t rows, std::int64_t columns, const Body& body) {
  with_type(typed, [&](auto type) { for_rows(pool, rows, columns, [&](std::int64_t row) { body(type, row); }); });
}

/// Rows per piece where every piece leaves partial column sums: at most 32 pieces.
inline std::int64_t partial_grain(std::int64_t rows) { return std::max<std::int64_t>(16, (rows + 31) / 32); }

/// Column sums over rows in a fixed order: body(begin, end, sums) adds the rows [begin, end) to `sums` [columns], which
/// starts at zero; the pieces are then added one after the other. `finish(total)` receives the ArrayMap of all columns.
template <class T, class Body, class Finish>
void sum_over_rows(ThreadPool& pool, std::int64_t rows, std::int64_t columns, const Body& body, const Finish& finish) {
  struct Partial {};
  const std::int64_t grain = partial_grain(rows);
  const std::int64_t pieces = std::max<std::int64_t>(1, (rows + grain - 1) / grain);
  // Pieces start at multiples of 64 bytes, see ScratchBuffer.
  const std::int64_t stride = (columns + 15) / 16 * 16;
  T* partials = thread_scratch<T, Partial>(pieces * stride);
  std::fill_n(partials, pieces * stride, T{0});
  pool.for_ranges(rows, grain,
                  [&](std::int64_t begin, std::int64_t end) { body(begin, end, partials + begin / grain * stride); });
  ArrayMap<T> total(partials, columns);
  for (std::int64_t piece = 1; piece < pieces; ++piece) total += ArrayMap<T>(partials + piece * stride, columns);
  finish(total);
}

/// Writes or accumulates a whole vector.
template <class T, class Values>
void put_vector(const Grad& grad, const Values& values) {
  if (grad.wanted()) put_into(ArrayMap<T>(grad.tensor.as<T>(), values.size()), values, grad.accumulate);
}

}  // namespace afterglow
