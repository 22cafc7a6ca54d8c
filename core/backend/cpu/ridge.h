// What the forward and the backward pass through the SKA core share: sizes, matrix views, and the r x r algebra of
// one group of statistics. Products over tokens run in the type of the data; the small matrices of a group are always
// float64, because the condition number of G + eps I multiplies every rounding error.
#pragma once
#include <Eigen/Core>
#include <cstdint>

#include "core/backend/backend.h"
#include "core/backend/cpu/product.h"
#include "core/backend/scratch.h"

namespace afterglow::ridge {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
/// A matrix in scratch memory or in one entry of a saved tensor.
template <class T>
using Compact = Eigen::Map<Matrix<T>>;
/// Tokens by width: the rows of one head in a [B,T,H,width] tensor.
template <class T>
using Panel = Eigen::Map<Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;
using Vector = Eigen::Map<Eigen::VectorXd>;

/// A matrix as `product` takes it, contiguous or with strided rows.
template <class Rows>
auto view(const Rows& matrix) {
  using T = typename Rows::Scalar;
  return Block<T>(const_cast<T*>(matrix.data()), matrix.rows(), matrix.cols(), matrix.outerStride());
}
/// out = or += op(a) op(b), see `product`.
template <class A, class B, class Out>
void multiply(bool transpose_a, bool transpose_b, const A& a, const B& b, bool accumulate, const Out& out) {
  product(transpose_a, transpose_b, view(a), view(b), accumulate, view(out));
}

inline constexpr double smallest_scale = 1e-6;  ///< m is at least this

/// Allocates aligned pieces of one thread's buffer. A kernel constructs it once, with room for all of its pieces.
class Scratch {
 public:
  /// Room for `count` doubles in up to `pieces` pieces.
  Scratch(std::int64_t count, std::int64_t pieces) {
    struct Ridge {};
    next_ = thread_scratch<double, Ridge>(count + pieces * granule);
  }
  template <class T>
  T* take(std::int64_t count) {
    T* address = reinterpret_cast<T*>(next_);
    const std::int64_t doubles = (count * static_cast<std::int64_t>(sizeof(T)) + 7) / 8;
    next_ += (doubles + granule - 1) / granule * granule;
    return address;
  }
  template <class T>
  Compact<T> block(std::int64_t rows, std::int64_t columns) {
    return {take<T>(rows * columns), rows, columns};
  }

 private:
  static constexpr std::int64_t granule = 8;  // doubles: 64 bytes
  double* next_;
};

/// How the positions of a sequence are cut: statistics are sums over pieces, and the queries of group g are the
/// positions of piece g. The group's statistics come from the pieces before it, and from piece g too unless
/// `exclusive`.
struct Sizes : RidgeSizes {
  std::int64_t piece, groups;
  bool exclusive, running_scale, masked;
  std::uint8_t roles;
  Bounds gamma;
  Sizes(const RidgeConfig& config, const RidgeInputs& in);

  std::int64_t first(std::int64_t g) const { return g * piece; }
  std::int64_t count(std::int64_t g) const { return std::min(piece, tokens - first(g)); }
  template <class T>
  Panel<T> panel(const Tensor& x, std::int64_t batch_head) const {
    const std::int64_t columns = x.columns(), b = batch_head / heads, h = batch_head % heads;
    return {x.as<T>() + (b * tokens * heads + h) * columns, tokens, columns, Eigen::OuterStride<>(heads * columns)};
  }
  const std::uint8_t* mask(const RidgeInputs& in, std::int64_t batch_head) const {
    return masked ? in.mask.as<std::uint8_t>() + batch_head / heads * tokens : nullptr;
  }
  /// Whether a position with this mask counts.
  bool counts(std::uint8_t role) const { return (roles >> role & 1) != 0; }
  /// The number of one head in the row of a position of a [B,T,H] tensor.
  template <class T>
  T& number(const Tensor& x, std::int64_t batch_head, std::int64_t t) const {
    return x.as<T>()[(batch_head / heads * tokens + t) * heads + batch_head % heads];
  }
  /// Whether any position contributes to group g; without one the output is zero.
  bool contributes(const RidgeInputs& in, std::int64_t batch_head, std::int64_t g) const;
  /// Keys, or their left factors, as they contribute: in masked mode a copy with zeros for the masked rows.
  template <class T>
  Panel<T> contributing(const Tensor& z, const RidgeInputs& in, std::int64_t batch_head, Scratch& scratch) const {
    const Panel<T> keys = panel<T>(z, batch_head);
    const std::uint8_t* selected = mask(in, batch_head);
    if (!selected) return keys;
    Compact<T> copy = scratch.block<T>(tokens, r);
    for (std::int64_t t = 0; t < tokens; ++t) {
      if (counts(selected[t])) {
        copy.row(t) = keys.row(t);
      } else {
        copy.row(t).setZero();
      }
    }
    return {copy.data(), tokens, r, Eigen::OuterStride<>(r)};
  }
};

/// Entry `i` of a saved tensor [.., rows, columns].
template <class T>
Compact<T> entry(const Tensor& saved, std::int64_t i) {
  const std::int64_t rows = saved.shape[-2], columns = saved.shape[-1];
  return {saved.as<T>() + i * rows * columns, rows, columns};
}

/// G + eps I = L L^T; on failure adds 1e-4 to the diagonal and tries again (from the tenth time on it doubles what it
/// adds, so that the loop ends). `L` [r,r] holds G on entry and L, upper part zero, on return. Returns the number of
/// additions.
int factorise(Compact<double>& L, double ridge, Compact<double>& keep);
/// L^-1 of a lower triangular matrix.
void invert_lower(const Compact<double>& L, Compact<double>& inverse);
/// |A v| after `iterations` normalised steps v <- A^T A v from ones/sqrt(r); 0 for A = 0. v, u [r] are scratch.
double max_singular_value(const Eigen::Ref<const Matrix<double>>& A, int iterations, Vector& v, Vector& u);
/// Numbers next to the state of one head in the recurrent form.
constexpr std::int64_t step_factors(std::int64_t r, std::int64_t width) { return 2 + (r + 1) * (2 * r + width + 3); }

/// Sums of the shapes of G, M and C, zero at first.
struct StatisticsSums {
  Compact<double> G, M, C;
  StatisticsSums(const Sizes& s, Scratch& scratch)
      : G(scratch.block<double>(s.r, s.r)), M(scratch.block<double>(s.r, s.r)), C(scratch.block<double>(s.width, s.r)) {
    for (Compact<double>* sum : {&G, &M, &C}) sum->setZero();
  }
};

/// L, A_w, F of one group and what the readout needs, in float64.
struct Whitened {
  const Sizes& s;
  Scratch& scratch;
  Compact<double> L = block(s.r), inverse = block(s.r), A = block(s.r), F = block(s.width), square = block(s.r),
                  tall = block(s.width);
  Vector left{scratch.take<double>(s.r), s.r}, right{scratch.take<double>(s.r), s.r};
  double sigma = 0.0;
  int jitter = 0;

  static std::int64_t doubles(const Sizes& s) { return 4 * s.r * s.r + 2 * s.width * s.r + 2 * s.r; }
  static constexpr std::int64_t pieces = 8;
  Compact<double> block(std::int64_t rows) const { return scratch.block<double>(rows, s.r); }
  /// From G without ridge, M, C, divided by m.
  template <class T>
  void compute(const RidgeConfig& config, const Compact<T>& G, const Compact<T>& M, const Compact<T>& C) {
    L = G.template cast<double>();
    jitter = factorise(L, config.ridge, square);
    invert_lower(L, inverse);
    A = M.template cast<double>();
    multiply(false, false, inverse, A, false, square);
    multiply(false, true, square, inverse, false, A);
    sigma = max_singular_value(A, config.power_iterations, left, right);
    tall = C.template cast<double>();
    multiply(false, true, tall, inverse, false, F);
  }
  template <class T>
  void save(const RidgeSaved& saved, std::int64_t i) const {
    entry<T>(saved.L, i) = L.cast<T>();
    entry<T>(saved.A_w, i) = A.cast<T>();
    entry<T>(saved.F, i) = F.cast<T>();
    saved.sigma.as<T>()[i] = static_cast<T>(sigma);
    saved.jitter.as<T>()[i] = static_cast<T>(jitter);
  }
};

}  // namespace afterglow::ridge
