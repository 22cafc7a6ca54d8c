// Sessa's feedback solve on the CPU: blocked forward substitution. Only the weights of one block of rows exist at a
// time; the gradient computes them again from the saved logarithms, going from the last block to the first.
#include <cmath>

#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cpu/product.h"
#include "core/backend/cpu/segments.h"
#include "core/backend/feedback.h"

namespace afterglow {
namespace {

constexpr std::int64_t block_rows = 64;

struct RoutingWeights {};
struct RoutingSlopes {};

std::int64_t padded(std::int64_t columns) { return (columns + 15) / 16 * 16; }

/// The matrix [T, columns] of one sequence.
template <class T>
Block<T> sequence_of(const Tensor& tensor, std::int64_t batch) {
  const std::int64_t length = tensor.shape[1];
  return {tensor.as<T>() + batch * length * tensor.row_stride, length, tensor.columns(), tensor.row_stride};
}

template <class T>
ArrayMap<T> row(const Block<T>& block, std::int64_t i) {
  return {block.data + i * block.stride, block.columns};
}

/// The inputs, gradients and workspace of one sequence.
template <class T>
struct Sequence {
  Block<T> q, k, f, s, routed;
  const T* gamma;
  T* log_sum;
  T scale;
  Sequence(const FeedbackInputs& in, const Tensor& solution, const FeedbackSaved& saved, std::int64_t batch)
      : q(sequence_of<T>(in.q, batch)),
        k(sequence_of<T>(in.k, batch)),
        f(sequence_of<T>(in.f, batch)),
        s(sequence_of<T>(solution, batch)),
        routed(sequence_of<T>(saved.routed, batch)),
        gamma(in.gamma.as<T>() + batch * length()),
        log_sum(saved.log_sum.as<T>() + batch * length()),
        scale(static_cast<T>(in.scale)) {}
  std::int64_t length() const { return f.rows; }
  std::int64_t count(std::int64_t begin) const { return std::min(block_rows, length() - begin); }
};

/// alpha of the rows [begin, begin + weights.rows) over the columns [0, begin + weights.rows), and its logarithms.
template <class T>
void routing_weights(const Sequence<T>& at, std::int64_t begin, const Block<T>& weights) {
  product(false, true, at.q.row_range(begin, weights.rows), at.k.row_range(0, weights.columns), false, weights);
  for (std::int64_t i = 0; i < weights.rows; ++i) {
    const std::int64_t seen = begin + i;
    ArrayMap<T> alpha = row(weights, i);
    alpha.tail(weights.columns - seen).setZero();
    at.log_sum[seen] = T{0};
    if (seen == 0) continue;
    auto past = alpha.head(seen);
    past *= at.scale;
    const T largest = past.maxCoeff();
    past = (past - largest).exp();
    const T sum = past.sum();
    past *= T{1} / sum;
    at.log_sum[seen] = largest + std::log(sum);
  }
}

template <class T>
void solve(const Sequence<T>& at) {
  const std::int64_t stride = padded(at.length());
  T* memory = thread_scratch<T, RoutingWeights>(block_rows * stride);
  for (std::int64_t begin = 0; begin < at.length(); begin += block_rows) {
    const std::int64_t count = at.count(begin);
    const Block<T> weights(memory, count, begin + count, stride), routed = at.routed.row_range(begin, count);
    routing_weights(at, begin, weights);
    product(false, false, weights.column_range(0, begin), at.s.row_range(0, begin), false, routed);
    for (std::int64_t i = 0; i < count; ++i) {
      const T* alpha = weights.data + i * stride + begin;
      ArrayMap<T> sum = row(routed, i);
      for (std::int64_t j = 0; j < i; ++j) sum += alpha[j] * row(at.s, begin + j);
      row(at.s, begin + i) = row(at.f, begin + i) + at.gamma[begin + i] * sum;
    }
  }
}

/// Recomputes the same weights from the saved logarithms.
template <class T>
void restored_weights(const Sequence<T>& at, std::int64_t begin, const Block<T>& weights) {
  product(false, true, at.q.row_range(begin, weights.rows), at.k.row_range(0, weights.columns), false, weights);
  for (std::int64_t i = 0; i < weights.rows; ++i) {
    const std::int64_t seen = begin + i;
    ArrayMap<T> alpha = row(weights, i);
    alpha.head(seen) = (alpha.head(seen) * at.scale - at.log_sum[seen]).exp();
    alpha.tail(weights.columns - seen).setZero();
  }
}

/// Backward substitution for one block: u of its rows, to which later blocks have added their terms already; then the
/// block adds its terms to earlier rows. `driven` receives gamma u of the block.
template <class T>
void solve_transposed(const Sequence<T>& at, std::int64_t begin, const Block<T>& weights, const Block<T>& u,
                      const Block<T>& driven) {
  for (std::int64_t i = weights.rows - 1; i >= 0; --i) {
    const T* alpha = weights.data + i * weights.stride + begin;
    row(driven, i) = at.gamma[begin + i] * row(u, begin + i);
    for (std::int64_t j = 0; j < i; ++j) row(u, begin + j) += alpha[j] * row(driven, i);
  }
  product(true, false, weights.column_range(0, begin), driven, true, u.row_range(0, begin));
}

/// From alpha to the gradient of the scores: alpha_tj gamma_t (u_t . s_j - u_t . routed_t) scale.
template <class T>
void score_slopes(const Sequence<T>& at, std::int64_t begin, const Block<T>& weights, const Block<T>& driven,
                  const Block<T>& slopes) {
  product(false, true, driven, at.s.row_range(0, weights.columns), false, slopes);
  for (std::int64_t i = 0; i < weights.rows; ++i) {
    const T mean = (row(driven, i) * row(at.routed, begin + i)).sum();
    row(slopes, i) = row(weights, i) * (row(slopes, i) - mean) * at.scale;
  }
}

template <class T>
void put_rows(const Grad& grad, std::int64_t first_row, const Block<T>& values) {
  for (std::int64_t i = 0; i < values.rows; ++i) put_row<T>(grad, first_row + i, row(values, i));
}

template <class T>
void put_gamma(const Sequence<T>& at, const Block<T>& u, const Grad& grad, std::int64_t batch) {
  if (!grad.wanted()) return;
  T* to = grad.tensor.as<T>() + batch * at.length();
  for (std::int64_t t = 0; t < at.length(); ++t) {
    const T value = (row(u, t) * row(at.routed, t)).sum();
    to[t] = grad.accumulate ? to[t] + value : value;
  }
}

template <class T>
void solve_backward(const Sequence<T>& at, std::int64_t batch, const Block<T>& u, const FeedbackGrads& out) {
  const std::int64_t length = at.length(), stride = padded(length), width = at.q.columns, wide = padded(width);
  const std::int64_t features = padded(at.f.columns);
  T* memory = thread_scratch<T, RoutingWeights>(block_rows * stride);
  T* more = thread_scratch<T, RoutingSlopes>(block_rows * (stride + wide + features) + length * wide);
  T* rows = more + block_rows * stride;
  const Block<T> dk(rows + block_rows * (wide + features), length, width, wide);
  std::fill_n(dk.data, length * wide, T{0});
  for (std::int64_t begin = (length - 1) / block_rows * block_rows; begin >= 0; begin -= block_rows) {
    const std::int64_t count = at.count(begin);
    const Block<T> weights(memory, count, begin + count, stride), slopes(more, count, begin + count, stride);
    const Block<T> dq(rows, count, width, wide), driven(rows + block_rows * wide, count, at.f.columns, features);
    restored_weights(at, begin, weights);
    solve_transposed(at, begin, weights, u, driven);
    score_slopes(at, begin, weights, driven, slopes);
    product(false, false, slopes, at.k.row_range(0, begin + count), false, dq);
    put_rows(out.q, batch * length + begin, dq);
    product(true, false, slopes, at.q.row_range(begin, count), true, dk.row_range(0, begin + count));
  }
  put_rows(out.k, batch * length, dk);
}

}  // namespace

void CpuBackend::feedback_solve(const FeedbackInputs& in, const Tensor& s, const FeedbackSaved& saved) {
  with_type(in.f, [&]<class T>(T) {
    pool_.for_each(in.f.shape[0], [&](std::int64_t batch) { solve(Sequence<T>(in, s, saved, batch)); });
  });
}

void CpuBackend::feedback_solve_backward(const FeedbackInputs& in, const Tensor& s, const FeedbackSaved& saved,
                                         const Tensor& ds, const Tensor& u, const FeedbackGrads& out) {
  with_type(in.f, [&]<class T>(T) {
    pool_.for_each(in.f.shape[0], [&](std::int64_t batch) {
      const Sequence<T> at(in, s, saved, batch);
      const Block<T> upstream = sequence_of<T>(ds, batch), solution = sequence_of<T>(u, batch);
      for (std::int64_t t = 0; t < at.length(); ++t) row(solution, t) = row(upstream, t);
      solve_backward(at, batch, solution, out);
      put_gamma(at, solution, out.gamma, batch);
    });
  });
}

}  // namespace afterglow
