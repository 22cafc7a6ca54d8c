// Matrix products in tiles whose sums stay in registers. The right factor is read in panels two registers wide, the
// left factor one number at a time, so that it may be transposed. Every sum runs along the inner dimension in order and
// in pieces of `depth`; which rows and columns are computed together changes no bit.
#pragma once
#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "core/backend/cpu/product.h"

namespace afterglow::tiles {

// What Eigen aligns to is a register of the widest kind that the compiler may use.
inline constexpr int register_bytes = EIGEN_MAX_STATIC_ALIGN_BYTES;
// As many sums as fit into registers together with one row of a panel and one number of the left factor: 32 registers
// with AVX-512, 16 without.
inline constexpr int most_rows = register_bytes == 64 ? 14 : 6;
// Terms of a sum before it is added to the result: a panel of them fits in the nearest cache.
inline constexpr std::int64_t depth = 256;

template <class T>
inline constexpr std::int64_t wide = register_bytes / sizeof(T);  // numbers in a register
template <class T>
inline constexpr std::int64_t panel_width = 2 * wide<T>;

template <class T>
struct Vector {
  typedef T Register __attribute__((vector_size(register_bytes)));
  typedef T Anywhere __attribute__((vector_size(register_bytes), aligned(sizeof(T)), may_alias));
};
template <class T>
using Register = typename Vector<T>::Register;
template <class T>
Register<T> load(const T* address) {
  return *reinterpret_cast<const typename Vector<T>::Anywhere*>(address);
}
template <class T>
void store(T* address, const Register<T>& value) {
  *reinterpret_cast<typename Vector<T>::Anywhere*>(address) = value;
}

template <class T>
struct Four {
  typedef T Numbers __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));
};

/// Four rows of four numbers become four columns.
template <class T>
void transpose_four(const T* in, std::int64_t in_stride, T* out, std::int64_t out_stride) {
  using Numbers = typename Four<T>::Numbers;
  const auto row = [&](int i) -> const Numbers& { return *reinterpret_cast<const Numbers*>(in + i * in_stride); };
  const auto put = [&](int i, const Numbers& value) { *reinterpret_cast<Numbers*>(out + i * out_stride) = value; };
  const Numbers a = row(0), b = row(1), c = row(2), d = row(3);
  const Numbers ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  put(0, __builtin_shufflevector(ab, cd, 0, 1, 4, 5));
  put(1, __builtin_shufflevector(ab, cd, 2, 3, 6, 7));
  const Numbers AB = __builtin_shufflevector(a, b, 2, 6, 3, 7), CD = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  put(2, __builtin_shufflevector(AB, CD, 0, 1, 4, 5));
  put(3, __builtin_shufflevector(AB, CD, 2, 3, 6, 7));
}

/// out [columns, rows] = in^T of in [rows, columns].
template <class T>
void copy_transposed(const T* in, std::int64_t in_stride, std::int64_t rows, std::int64_t columns, T* out,
                     std::int64_t out_stride) {
  const std::int64_t whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
  for (std::int64_t j = 0; j < whole_columns; j += 4) {
    for (std::int64_t i = 0; i < whole_rows; i += 4)
      transpose_four(in + i * in_stride + j, in_stride, out + j * out_stride + i, out_stride);
  }
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = j < whole_columns ? whole_rows : 0; i < rows; ++i)
      out[j * out_stride + i] = in[i * in_stride + j];
  }
}

/// op(a) as tiles read it: the number of row i and inner index l is data[i * row + l * inner].
template <class T>
struct Left {
  const T* data;
  std::int64_t row, inner;
  Left(const Block<T>& a, bool transpose)
      : data(a.data), row(transpose ? 1 : a.stride), inner(transpose ? a.stride : 1) {}
  Left from(std::int64_t i, std::int64_t l) const {
    Left moved = *this;
    moved.data += i * row + l * inner;
    return moved;
  }
};

/// One or two registers of every row of op(b), rows `stride` apart.
template <class T>
struct Panel {
  const T* data;
  std::int64_t stride;
};

/// op(b) [k, n] as panels, read in place; those that are transposed or not of full width are copied to `memory`.
template <class T>
class Right {
 public:
  /// Numbers of memory that a copy takes, 64 byte aligned.
  static std::int64_t memory(const Block<T>& b, bool transpose) {
    const std::int64_t k = transpose ? b.columns : b.rows, n = transpose ? b.rows : b.columns;
    return k * (padded(n) - copied_from(n, transpose));
  }
  Right(const Block<T>& b, bool transpose, T* memory)
      : inner(transpose ? b.columns : b.rows),
        columns(transpose ? b.rows : b.columns),
        data_(b.data),
        stride_(b.stride),
        first_copied_(copied_from(columns, transpose)),
        copy_(memory) {
    for (std::int64_t j = first_copied_; j < columns; j += panel_width<T>)
      copy(j, std::min(panel_width<T>, columns - j), transpose);
  }
  /// The panel of the columns from `column` on, a multiple of the panel's width, and of the rows from l on.
  Panel<T> panel(std::int64_t column, std::int64_t l) const {
    if (column < first_copied_) return {data_ + l * stride_ + column, stride_};
    const std::int64_t stride = std::min(panel_width<T>, padded(columns) - column);
    return {copy_ + (column - first_copied_) * inner + l * stride, stride};
  }

  std::int64_t inner, columns;

 private:
  static std::int64_t padded(std::int64_t n) { return (n + wide<T> - 1) / wide<T> * wide<T>; }
  static std::int64_t copied_from(std::int64_t n, bool transpose) {
    if (transpose) return 0;
    return n % wide<T> == 0 ? n : n / panel_width<T> * panel_width<T>;
  }
  void copy(std::int64_t column, std::int64_t count, bool transpose) const {
    const std::int64_t stride = padded(count);
    T* out = copy_ + (column - first_copied_) * inner;
    if (transpose) {
      copy_transposed(data_ + column * stride_, stride_, count, inner, out, stride);
    } else {
      for (std::int64_t l = 0; l < inner; ++l) std::copy_n(data_ + l * stride_ + column, count, out + l * stride);
    }
    for (std::int64_t l = 0; count < stride && l < inner; ++l)
      std::fill_n(out + l * stride + count, stride - count, T{0});
  }

  const T* data_;
  std::int64_t stride_, first_copied_;
  T* copy_;
};

template <class T, int rows, int registers>
void put_sums(const Register<T> (&sums)[rows][registers], bool accumulate, T* c, std::int64_t stride) {
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
    T* out = c + i * stride;
#pragma GCC unroll 2
    for (int j = 0; j < registers; ++j, out += wide<T>) store<T>(out, accumulate ? load(out) + sums[i][j] : sums[i][j]);
  }
}

/// c [rows, columns] = or += op(a) times a panel over `count` inner indices; `columns` ends in the panel's last
/// register.
template <class T, int rows, int registers>
void tile(std::int64_t count, const Left<T>& a, const Panel<T>& b, bool accumulate, const Block<T>& c) {
  Register<T> sums[rows][registers] = {};
  const T *left = a.data, *right = b.data;
  for (std::int64_t l = 0; l < count; ++l, left += a.inner, right += b.stride) {
    Register<T> row[registers];
#pragma GCC unroll 2
    for (int j = 0; j < registers; ++j) row[j] = load(right + j * wide<T>);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < registers; ++j) sums[i][j] += left[i * a.row] * row[j];
    }
  }
  constexpr std::int64_t width = registers * wide<T>;
  if (c.columns == width) return put_sums<T, rows, registers>(sums, accumulate, c.data, c.stride);
  alignas(register_bytes) T edge[rows * width];
  put_sums<T, rows, registers>(sums, false, edge, width);
  for (int i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < c.columns; ++j) {
      T& out = c.data[i * c.stride + j];
      out = accumulate ? out + edge[i * width + j] : edge[i * width + j];
    }
  }
}

template <class T>
using Kernel = void (*)(std::int64_t, const Left<T>&, const Panel<T>&, bool, const Block<T>&);
template <class T, int registers, int... rows>
constexpr std::array<Kernel<T>, sizeof...(rows)> kernels_of(std::integer_sequence<int, rows...>) {
  return {&tile<T, rows + 1, registers>...};
}
/// By rows - 1, of one register and of two.
template <class T>
inline constexpr std::array<std::array<Kernel<T>, most_rows>, 2> kernels = {
    kernels_of<T, 1>(std::make_integer_sequence<int, most_rows>()),
    kernels_of<T, 2>(std::make_integer_sequence<int, most_rows>())};

/// Rows far apart share few places of the nearest cache and would push each other out between two strips.
template <class T>
bool worth_copying(const Panel<T>& panel, std::int64_t strips) {
  constexpr std::int64_t far = 1024;  // bytes
  return strips > 2 && panel.stride * static_cast<std::int64_t>(sizeof(T)) >= far;
}
template <class T>
Panel<T> copied(const Panel<T>& panel, std::int64_t count, std::int64_t registers, T* memory) {
  for (std::int64_t l = 0; l < count; ++l) {
    for (std::int64_t j = 0; j < registers; ++j)
      store<T>(memory + (l * registers + j) * wide<T>, load(panel.data + l * panel.stride + j * wide<T>));
  }
  return {memory, registers * wide<T>};
}

/// c = op(a) op(b), or c += op(a) op(b). Rows are dealt out evenly to as few tiles as hold them.
template <class T>
void multiply(const Left<T>& a, const Right<T>& b, bool accumulate, const Block<T>& c) {
  const std::int64_t strips = (c.rows + most_rows - 1) / most_rows;
  alignas(register_bytes) T near[depth * panel_width<T>];
  std::int64_t l = 0;
  do {  // once if there is nothing to sum: the result is zero then
    const std::int64_t count = std::min(depth, b.inner - l);
    for (std::int64_t j = 0; j < c.columns; j += panel_width<T>) {
      const std::int64_t columns = std::min(panel_width<T>, c.columns - j);
      const std::int64_t registers = columns > wide<T> ? 2 : 1;
      Panel<T> panel = b.panel(j, l);
      if (worth_copying(panel, strips)) panel = copied(panel, count, registers, near);
      const auto& by_rows = kernels<T>[static_cast<std::size_t>(registers - 1)];
      for (std::int64_t strip = 0; strip < strips; ++strip) {
        const std::int64_t begin = strip * c.rows / strips, rows = (strip + 1) * c.rows / strips - begin;
        by_rows[static_cast<std::size_t>(rows - 1)](count, a.from(begin, l), panel, accumulate || l > 0,
                                                    {c.data + begin * c.stride + j, rows, columns, c.stride});
      }
    }
    l += depth;
  } while (l < b.inner);
}

}  // namespace afterglow::tiles
