// Matrix products on the CPU: Eigen, cut into row pieces that depend on the shape alone.
#include <Eigen/Core>
#include <algorithm>

#include "core/backend/cpu_backend.h"
#include "core/backend/cpu_dispatch.h"

namespace afterglow {

namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using MatrixMap = Eigen::Map<Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;

template <class T>
MatrixMap<T> matrix_of(const Tensor& t) {
  return {t.as<T>(), t.shape[0], t.shape[1], Eigen::OuterStride<>(t.row_stride)};
}

/// Tall enough that packing the right factor once a piece costs little, short enough for several pieces a thread.
std::int64_t rows_per_piece(std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t worth_sharing = 1 << 19;  // multiplications; below this waking a thread costs more
  if (m * n * k < worth_sharing) return m;
  return std::clamp<std::int64_t>((m / 8 + 15) / 16 * 16, 32, 128);
}

/// c = alpha a b + beta c for a row piece. The factor is kept out of the product: as part of it Eigen would copy a row
/// vector to the heap.
template <class T, class A, class B, class C>
void product(T alpha, const A& a, const B& b, T beta, C&& c) {
  if (beta == T{0}) {
    c.setZero();  // not a product: unwritten memory may hold NaN
  } else if (beta != alpha) {
    c *= alpha == T{0} ? beta : beta / alpha;
  }
  if (alpha == T{0}) return;
  c.noalias() += a * b;
  if (alpha != T{1}) c *= alpha;
}

}  // namespace

void CpuBackend::gemm(bool transpose_a, bool transpose_b, double alpha, const Tensor& a, const Tensor& b, double beta,
                      const Tensor& c) {
  const std::int64_t m = c.shape[0], n = c.shape[1], k = transpose_a ? a.shape[0] : a.shape[1];
  with_type(c, [&](auto zero) {
    using T = decltype(zero);
    const MatrixMap<T> left = matrix_of<T>(a), right = matrix_of<T>(b);
    pool_.for_ranges(m, rows_per_piece(m, n, k), [&](std::int64_t begin, std::int64_t end) {
      const T factor = static_cast<T>(alpha), keep = static_cast<T>(beta);
      auto out = matrix_of<T>(c).middleRows(begin, end - begin);
      const auto rows = left.middleRows(transpose_a ? 0 : begin, transpose_a ? 0 : end - begin);
      const auto columns = left.middleCols(transpose_a ? begin : 0, transpose_a ? end - begin : 0).transpose();
      if (transpose_a && transpose_b) {
        product(factor, columns, right.transpose(), keep, out);
      } else if (transpose_a) {
        product(factor, columns, right, keep, out);
      } else if (transpose_b) {
        product(factor, rows, right.transpose(), keep, out);
      } else {
        product(factor, rows, right, keep, out);
      }
    });
  });
}

}  // namespace afterglow
