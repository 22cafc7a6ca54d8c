// One chunk of one head of Gated KalmaNet's core on the CPU: products with all H_t of the chunk at once, and the
// Chebyshev iteration for all its tokens (GKA 4.2). With G the sums of log gates inside the chunk and H_0 the state
// before it, H_c = e^{G_c} H_0 + sum_{j<=c} e^{G_c - G_j} k_j k_j^T; no H_c is ever formed.
#pragma once
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/backend/chebyshev.h"
#include "core/backend/cpu/product.h"
#include "core/backend/cpu/segments.h"

namespace afterglow::chebyshev {

struct Sizes {
  std::int64_t batch, tokens, heads, width, chunk, chunks;
  Sizes(const ChebyshevConfig& config, const ChebyshevInputs& in)
      : batch(in.q.shape[0]),
        tokens(in.q.shape[1]),
        heads(in.q.shape[2]),
        width(in.q.shape[3]),
        chunk(std::min(config.piece(), tokens)),
        chunks(config.chunks(tokens)) {}
  std::int64_t rows() const { return batch * tokens * heads; }
  std::int64_t pieces() const { return batch * heads * chunks; }
};

/// Row-major matrices as Eigen maps them.
template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using MatrixMap = Eigen::Map<Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;
template <class T>
MatrixMap<T> map_of(const Block<T>& b) {
  return {b.data, b.rows, b.columns, Eigen::OuterStride<>(b.stride)};
}

/// Allocates pieces of a thread's scratch memory, each aligned to 64 bytes.
template <class T>
class Pieces {
 public:
  explicit Pieces(T* memory) : next_(memory) {}
  T* take(std::int64_t count) {
    T* piece = next_;
    next_ += rounded(count);
    return piece;
  }
  Block<T> block(std::int64_t rows, std::int64_t columns) { return {take(rows * columns), rows, columns}; }
  static std::int64_t rounded(std::int64_t count) { return (count + 15) / 16 * 16; }

 private:
  T* next_;
};

template <class T>
class Chunk {
 public:
  /// Elements of memory for a chunk and for `panels` and `squares` more matrices [C,D] and [C,C].
  static std::int64_t memory(const Sizes& s, std::int64_t panels, std::int64_t squares = 0) {
    return (2 + panels) * Pieces<T>::rounded(s.chunk * s.width) +
           (3 + squares) * Pieces<T>::rounded(s.chunk * s.chunk) + 4 * Pieces<T>::rounded(s.chunk);
  }
  /// `H` and `S` are the states before the chunk.
  Chunk(const ChebyshevConfig& config, const ChebyshevInputs& in, const Sizes& s, std::int64_t batch, std::int64_t head,
        std::int64_t index, T* H, T* S, Pieces<T>& pieces)
      : count(std::min(s.chunk, s.tokens - index * s.chunk)),
        width(s.width),
        stride(s.heads * s.width),
        first_row((batch * s.tokens + index * s.chunk) * s.heads + head),
        row_stride(s.heads),
        q(panel(in.q)),
        k(panel(in.k)),
        v(panel(in.v)),
        H0(H, width, width),
        S0(S, width, width),
        key_gate(pieces.take(s.chunk)),
        value_gate(pieces.take(s.chunk)),
        key_mask(pieces.block(count, count)),
        value_mask(pieces.block(count, count)),
        config_(config),
        scores_(pieces.block(count, count)),
        decay_(pieces.take(s.chunk)),
        omega_(pieces.take(s.chunk)),
        product_(pieces.block(count, width)),
        before_(pieces.block(count, width)) {
    sum_gates(in.g);
    fill_mask(key_gate, key_mask);
    fill_mask(value_gate, value_mask);
  }

  /// The tokens of this chunk in a tensor [B,T,H,D], and one number of them in a tensor [B,T,H].
  Block<T> panel(const Tensor& tensor) const { return panel(tensor.as<T>()); }
  Block<T> panel(T* data) const { return {data + first_row * width, count, width, stride}; }
  T& number(const Tensor& tensor, std::int64_t c) const { return tensor.as<T>()[place(c)]; }
  std::int64_t place(std::int64_t c) const { return first_row + c * row_stride; }

  T alpha_of(const Tensor& alpha, std::int64_t c) const {
    return alpha.defined() ? number(alpha, c) : static_cast<T>(config_.alpha);
  }
  T log_floor() const { return config_.gate_floor > 0 ? static_cast<T>(std::log(config_.gate_floor)) : -infinite; }

  /// out_c = e^{G_c} in_c state + sum_{j<=c} e^{G_c - G_j} (in_c . left_j) right_j, times `factor`.
  void read(const T* gate, const Block<T>& mask, const Block<T>& in, const Block<T>& state, bool transpose_state,
            const Block<T>& left, const Block<T>& right, T factor, const Block<T>& out) {
    product(false, transpose_state, in, state, false, out);
    for (std::int64_t c = 0; c < count; ++c) map_of(out).row(c) *= factor * std::exp(gate[c]);
    product(false, true, in, left, false, scores_);
    map_of(scores_).array() *= factor * map_of(mask).array();
    product(false, false, scores_, right, true, out);
  }
  /// Row c becomes H_c in_c.
  void apply(const Block<T>& in, const Block<T>& out) { read(key_gate, key_mask, in, H0, false, k, k, T{1}, out); }

  /// |H_c|_F by |e^g H + k k^T|^2 = e^2g |H|^2 + 2 e^g k^T H k + |k|^4, where every term is positive; then lambda_c.
  void measure(const Tensor& fro, const Tensor& lambda) {
    apply(k, product_);
    T square = map_of(H0).squaredNorm();
    for (std::int64_t c = 0; c < count; ++c) {
      const T own = map_of(k).row(c).squaredNorm(), gate = std::exp(key_gate[c] - (c > 0 ? key_gate[c - 1] : T{0}));
      const T overlap = std::max(map_of(k).row(c).dot(map_of(product_).row(c)) - own * own, T{0});
      square = gate * gate * square + T{2} * overlap + own * own;
      const T norm = std::sqrt(square);
      number(fro, c) = norm;
      number(lambda, c) = static_cast<T>(config_.fixed_lambda > 0 ? config_.fixed_lambda : config_.ridge * norm);
    }
  }

  /// Row c of x becomes the Chebyshev iterate for (H_c + lambda_c I) x = right_c with mu = lambda, L = |H|_F + lambda.
  /// Where both are zero the result is zero.
  void solve(const Tensor& fro, const Tensor& lambda, const Block<T>& right, const Block<T>& x) {
    Block<T> now = x, before = before_;
    for (std::int64_t c = 0; c < count; ++c) {
      const T bound = number(fro, c) + T{2} * number(lambda, c);
      decay_[c] = bound > T{0} ? T{2} / bound : T{0};
      omega_[c] = T{2};
      map_of(now).row(c) = decay_[c] * map_of(right).row(c);
      map_of(before).row(c).setZero();
    }
    for (int i = 0; i < config_.iterations; ++i) {
      apply(now, product_);
      for (std::int64_t c = 0; c < count; ++c) advance(number(fro, c), number(lambda, c), c, right, now, before);
      std::swap(now, before);
    }
    if (now.data != x.data) map_of(x) = map_of(now);
  }

  std::int64_t count, width, stride, first_row, row_stride;
  Block<T> q, k, v, H0, S0;
  T *key_gate, *value_gate;       ///< G, sums of log gates from the chunk's start
  Block<T> key_mask, value_mask;  ///< row c, column i <= c: e^{G_c - G_i}; zero above the diagonal

 private:
  static constexpr T infinite = std::numeric_limits<T>::infinity();

  void sum_gates(const Tensor& g) {
    T sum = 0;
    for (std::int64_t c = 0; c < count; ++c) {
      if (g.defined()) sum += std::max(number(g, c), log_floor());
      value_gate[c] = sum;
      key_gate[c] = config_.decay_keys ? sum : T{0};
    }
  }
  void fill_mask(const T* gate, const Block<T>& mask) {
    for (std::int64_t c = 0; c < count; ++c)
      for (std::int64_t i = 0; i < count; ++i) mask.data[c * count + i] = i <= c ? std::exp(gate[c] - gate[i]) : T{0};
  }
  /// One iteration for row c: the next iterate overwrites `before`.
  void advance(T fro, T lambda, std::int64_t c, const Block<T>& right, const Block<T>& now, const Block<T>& before) {
    const T bound = fro + T{2} * lambda, rho = bound > T{0} ? fro / bound : T{0};
    omega_[c] = T{4} / (T{4} - rho * rho * omega_[c]);
    const auto xi = map_of(now).row(c);
    auto old = map_of(before).row(c);
    old = xi - omega_[c] * decay_[c] * (map_of(product_).row(c) + lambda * xi - map_of(right).row(c)) +
          (omega_[c] - T{1}) * (xi - old);
  }

  const ChebyshevConfig& config_;
  Block<T> scores_;
  T *decay_, *omega_;
  Block<T> product_, before_;
};

}  // namespace afterglow::chebyshev
