// Matrix products on the CPU: `tiles.h` for matrices, Eigen for vectors. Threads take blocks of rows that depend on the
// shape alone.
#include <Eigen/Core>
#include <algorithm>
#include <optional>

#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cpu/dispatch.h"
#include "core/backend/cpu/product.h"
#include "core/backend/cpu/tiles.h"
#include "core/backend/scratch.h"

namespace afterglow {
namespace {

template <class T>
using MatrixMap = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, Eigen::Unaligned,
                             Eigen::OuterStride<>>;
template <class T>
using StridedVector = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, 1>, Eigen::Unaligned, Eigen::InnerStride<>>;

template <class T>
MatrixMap<T> map_of(const Block<T>& block) {
  return {block.data, block.rows, block.columns, Eigen::OuterStride<>(block.stride)};
}

template <class T>
Block<T> block_of(const Tensor& t) {
  return {t.as<T>(), t.shape[0], t.shape[1], t.row_stride};
}

/// A matrix of one row, or of one column.
template <class T>
StridedVector<T> vector_of(const Block<T>& block, bool is_row) {
  return {block.data, is_row ? block.columns : block.rows, Eigen::InnerStride<>(is_row ? 1 : block.stride)};
}

/// Tall enough that a panel stays in the cache, short enough that each thread gets several blocks.
std::int64_t rows_per_piece(std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t worth_sharing = 1 << 19;  // multiplications; below this waking a thread costs more
  if (m * n * k < worth_sharing) return m;
  return std::clamp<std::int64_t>((m / 8 + 15) / 16 * 16, 32, 128);
}

/// out = or += op(matrix) vector.
template <class T>
void times_vector(bool transpose, const Block<T>& matrix, const StridedVector<T>& vector, bool accumulate,
                  StridedVector<T> out) {
  if (!accumulate) out.setZero();
  if (transpose) {
    out.noalias() += map_of(matrix).transpose() * vector;
  } else {
    out.noalias() += map_of(matrix) * vector;
  }
}

/// op(a) op(b) for any rows of op(a). The constructor packs the right factor into the scratch of its thread.
/// Vectors go to Eigen, because they would fill one row or column of a tile.
template <class T>
class Product {
 public:
  Product(bool transpose_a, bool transpose_b, std::int64_t rows, const Block<T>& b)
      : transpose_a_(transpose_a),
        transpose_b_(transpose_b),
        is_row_(rows == 1),
        is_column_((transpose_b ? b.rows : b.columns) == 1),
        b_(b) {
    if (is_row_ || is_column_) return;
    struct Panels {};
    panels_.emplace(b, transpose_b, thread_scratch<T, Panels>(tiles::Right<T>::memory(b, transpose_b)));
  }
  void put(const Block<T>& a, bool accumulate, const Block<T>& c) const {
    if (is_column_) {
      times_vector(transpose_a_, a, vector_of(b_, transpose_b_), accumulate, vector_of(c, false));
    } else if (is_row_) {
      times_vector(!transpose_b_, b_, vector_of(a, !transpose_a_), accumulate, vector_of(c, true));
    } else {
      tiles::multiply(tiles::Left<T>(a, transpose_a_), *panels_, accumulate, c);
    }
  }

 private:
  bool transpose_a_, transpose_b_, is_row_, is_column_;
  Block<T> b_;
  std::optional<tiles::Right<T>> panels_;
};

/// c = alpha op(a) op(b) + beta c. alpha is applied outside of the product: inside it Eigen would copy a row vector to
/// the heap.
template <class T>
void scaled_product(const Product<T>& product, T alpha, const Block<T>& a, T beta, const Block<T>& c) {
  MatrixMap<T> out = map_of(c);
  if (alpha == T{0}) {
    if (beta == T{0}) {
      out.setZero();
    } else {
      out *= beta;
    }
    return;
  }
  if (beta != T{0} && beta != alpha) out *= beta / alpha;
  product.put(a, beta != T{0}, c);
  if (alpha != T{1}) out *= alpha;
}

}  // namespace

template <class T>
void product(bool transpose_a, bool transpose_b, const Block<T>& a, const Block<T>& b, bool accumulate,
             const Block<T>& c) {
  Product<T>(transpose_a, transpose_b, c.rows, b).put(a, accumulate, c);
}
template void product(bool, bool, const Block<float>&, const Block<float>&, bool, const Block<float>&);
template void product(bool, bool, const Block<double>&, const Block<double>&, bool, const Block<double>&);

void CpuBackend::gemm(bool transpose_a, bool transpose_b, double alpha, const Tensor& a, const Tensor& b, double beta,
                      const Tensor& c) {
  const std::int64_t m = c.shape[0], n = c.shape[1], k = transpose_a ? a.shape[0] : a.shape[1];
  with_type(c, [&]<class T>(T) {
    const Block<T> left = block_of<T>(a), out = block_of<T>(c);
    const Product<T> product(transpose_a, transpose_b, m, block_of<T>(b));
    pool_.for_ranges(m, rows_per_piece(m, n, k), [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t count = end - begin;
      scaled_product(product, static_cast<T>(alpha),
                     transpose_a ? left.column_range(begin, count) : left.row_range(begin, count), static_cast<T>(beta),
                     out.row_range(begin, count));
    });
  });
}

void CpuBackend::linear_forward_many(const Tensor& x, std::span<const Tensor> weights, std::span<const Tensor> biases,
                                     std::span<const Tensor> results, const KeptInput& /*kept*/) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    gemm(false, true, 1.0, x, weights[i], 0.0, results[i]);
    if (i < biases.size() && biases[i].defined()) add_bias(results[i], biases[i], results[i]);
  }
}

void CpuBackend::gemm_sum(std::span<const Tensor> a, std::span<const Tensor> b, const Grad& c) {
  if (!c.wanted()) return;
  for (std::size_t i = 0; i < a.size(); ++i)
    gemm(false, false, 1.0, a[i], b[i], i > 0 || c.accumulate ? 1.0 : 0.0, c.tensor);
}

void CpuBackend::linear_gradients(std::span<const Tensor> dresults, const Tensor& x, std::span<const Grad> dweights,
                                  std::span<const Grad> dbiases) {
  for (std::size_t i = 0; i < dresults.size(); ++i) {
    const Grad& dw = dweights[i];
    if (dw.wanted()) gemm(true, false, 1.0, dresults[i], x, dw.accumulate ? 1.0 : 0.0, dw.tensor);
    if (i < dbiases.size()) sum_rows(dresults[i], dbiases[i]);
  }
}

void CpuBackend::linear_backward(const LinearBackward& projections) { linear_backward_by_parts(*this, projections); }
Plan CpuBackend::plan(const ProjectionCall& call) const { return {.row_stride = call.weights.front().rows()}; }
void CpuBackend::hold_weights(const Tensor&, const Tensor&) {}
void CpuBackend::release_weights() {}

void CpuBackend::swiglu_gate_up(const Tensor& x, const Tensor& gate, const Tensor& up, const Tensor& g, const Tensor& u,
                                const Tensor& h) {
  gemm(false, true, 1.0, x, gate, 0.0, g);
  gemm(false, true, 1.0, x, up, 0.0, u);
  silu_multiply(g, u, h);
}

// The memory of du holds dh first; the last loop overwrites it with du.
void CpuBackend::swiglu_gate_up_backward(const Tensor& dy, const Tensor& down, const Tensor& g, const Tensor& u,
                                         const Tensor& dg, const Tensor& du) {
  gemm(false, false, 1.0, dy, down, 0.0, du);
  silu_multiply_backward(g, u, du, {dg, false}, {du, false});
}

}  // namespace afterglow
