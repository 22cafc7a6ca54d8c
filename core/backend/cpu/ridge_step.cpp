// The recurrent form of the SKA core on the CPU. Next to the sums the state keeps what an answer needs of them: L of
// G + eps I = L L^T, A = L^-1 M L^-T, F = C L^-T and h = L^-1 z of the previous key. A new key z is taken in by r
// rotations, [L z] Q = [L' 0]; since [L z] (X; 0) = L X for X = L^-1 Y, the same rotations turn X, with a row of zeros
// below it, into L'^-1 Y, and the unit vector below zeros into L'^-1 z. So a token takes O(r^2 + P r) operations. All
// of it is float64. Where digits would be lost, or m grows, the factors are computed anew from the sums.
#include <Eigen/Jacobi>
#include <algorithm>
#include <cmath>

#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cpu/dispatch.h"
#include "core/backend/cpu/ridge.h"

namespace afterglow {
namespace {

using namespace ridge;

/// The numbers of one head in a tensor [B,H,n] or [B,1,H,n].
template <class T>
Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, 1>> of_head(const Tensor& x, std::int64_t i) {
  const std::int64_t width = x.shape.last();
  return {x.as<T>() + i * width, width};
}

/// The factors of one head in `RidgeState::factors`, with a row below them.
struct Factors {
  std::int64_t r, width;
  double* from;
  double &is_known = from[0], &ridge = from[1];  ///< 1 or 0; the eps that L holds
  /// L^T; columns of A, of zeros, of F^T, h, and the unit vector.
  Compact<double> L{from + 2, r + 1, r}, turned{L.data() + L.size(), r + 1, r + width + 3};

  Factors(const RidgeState& state, std::int64_t i)
      : r(state.C.shape.last()),
        width(state.C.shape[2]),
        from(state.factors.as<double>() + i * step_factors(r, width)) {}
  auto lower() { return L.topRows(r).transpose().triangularView<Eigen::Lower>(); }
  auto A() { return turned.topLeftCorner(r, r); }
  auto F_transposed() { return turned.block(0, r + 1, r, width); }
  auto h() { return turned.col(r + 1 + width).head(r); }

  void add_key(const Vector& z) {
    L.row(r) = z.transpose();
    for (std::int64_t j = 0; j < r; ++j) {
      Eigen::JacobiRotation<double> turn;
      turn.makeGivens(L(j, j), L(r, j));
      L.applyOnTheLeft(j, r, turn.adjoint());
      turned.applyOnTheLeft(j, r, turn.adjoint());
      turned.leftCols(r + 1).applyOnTheRight(j, r, turn);
    }
    const auto last = turned.col(r + 2 + width).head(r);
    A().noalias() += last * h().transpose();
    h() = last;
    finish();
  }
  /// The condition number of G + eps I is at least the square of the ratio on L's diagonal.
  void finish() {
    const auto diagonal = L.topRows(r).diagonal();
    is_known = diagonal.minCoeff() > 1e-5 * diagonal.maxCoeff() ? 1 : 0;
    turned.row(r).setZero();
    turned.col(r).setZero();
    turned.col(r + 2 + width).setZero();
    turned(r, r + 2 + width) = 1;
  }
};

/// The key of one head; older sums shrink when the scale m grows.
template <class T>
void write_key(const RidgeInputs& in, const RidgeState& state, std::int64_t i) {
  Compact<T> G = entry<T>(state.G, i), M = entry<T>(state.M, i), C = entry<T>(state.C, i);
  const std::int64_t r = G.rows();
  Scratch scratch(3 * r, 3);
  Vector key(scratch.take<double>(r), r), left(scratch.take<double>(r), r), previous(scratch.take<double>(r), r);
  T& m = state.m.as<T>()[i];
  key = of_head<T>(in.z, i).template cast<double>();
  const double length = in.length.defined() ? static_cast<double>(in.length.as<T>()[i]) : key.norm();
  const double old_scale = static_cast<double>(m), new_scale = std::max({old_scale, length, smallest_scale});
  const double shrink = old_scale / new_scale;
  m = static_cast<T>(new_scale);
  key /= new_scale;
  left = of_head<T>(in.left.defined() ? in.left : in.z, i).template cast<double>() / new_scale;
  previous = shrink * of_head<T>(state.previous_key, i).template cast<double>();
  const auto add = [&](Compact<T>& sum, const Vector& right) {
    sum = (shrink * shrink * sum.template cast<double>() + left.lazyProduct(right.transpose())).template cast<T>();
  };
  add(G, key);
  add(M, previous);
  of_head<T>(state.previous_key, i) = key.template cast<T>();
  if (shrink != 1) C = (shrink * C.template cast<double>()).template cast<T>();
  Factors factors(state, i);
  if (shrink != 1 || in.left.defined()) factors.is_known = 0;
  if (factors.is_known != 0) factors.add_key(key);
}

template <class T>
void write_value(const Tensor& v, const RidgeState& state, std::int64_t i) {
  const auto value = of_head<T>(v, i);
  entry<T>(state.C, i).noalias() += value * of_head<T>(state.previous_key, i).transpose();
  Factors factors(state, i);
  if (factors.is_known != 0)
    factors.F_transposed().noalias() += factors.h() * value.template cast<double>().transpose();
}

/// Computes the factors of one head from its sums; returns how often the diagonal was helped.
template <class T>
int refresh(const RidgeConfig& config, const RidgeState& state, const Sizes& s, std::int64_t i, Factors& of) {
  Scratch scratch(Whitened::doubles(s), Whitened::pieces);
  Whitened whitened{s, scratch};
  whitened.compute(config, entry<T>(state.G, i), entry<T>(state.M, i), entry<T>(state.C, i));
  of.L.topRows(s.r) = whitened.L.transpose();
  of.A() = whitened.A;
  of.F_transposed() = whitened.F.transpose();
  of.h().noalias() = whitened.inverse * of_head<T>(state.previous_key, i).template cast<double>();
  of.ridge = config.ridge;
  of.finish();
  if (whitened.jitter > 0) of.is_known = 0;
  return whitened.jitter;
}

template <class T>
void answer_query(const RidgeConfig& config, const RidgeInputs& in, const RidgeState& state, const RidgeSaved& saved,
                  const Sizes& s, std::int64_t i, const Tensor& y) {
  Factors factors(state, i);
  const bool is_current = factors.is_known != 0 && factors.ridge == config.ridge;
  const int jitter = is_current ? 0 : refresh<T>(config, state, s, i, factors);
  Scratch scratch(2 * s.r, 2);
  Vector now(scratch.take<double>(s.r), s.r), next(scratch.take<double>(s.r), s.r);
  const double sigma = max_singular_value(factors.A(), config.power_iterations, now, next);
  const auto of_learned = [&](const Tensor& x) { return static_cast<double>(x.as<T>()[i % s.heads]); };
  const double scale = s.gamma.at(of_learned(in.gamma_raw)) / std::max(sigma, 1.0);
  now = of_head<T>(in.q, i).template cast<double>();
  factors.lower().solveInPlace(now);
  for (int k = 0; k < config.power; ++k) {
    next.noalias() = factors.A() * now;
    now = scale * next;
  }
  now *= of_learned(in.eta) / static_cast<double>(state.m.as<T>()[i]);
  of_head<T>(y, i) = (factors.F_transposed().transpose() * now).template cast<T>();
  entry<T>(saved.L, i) = factors.L.topRows(s.r).transpose().template cast<T>();
  entry<T>(saved.A_w, i) = factors.A().template cast<T>();
  entry<T>(saved.F, i) = factors.F_transposed().transpose().template cast<T>();
  saved.sigma.as<T>()[i] = static_cast<T>(sigma);
  saved.jitter.as<T>()[i] = static_cast<T>(jitter);
}

}  // namespace

void CpuBackend::ridge_write_key(const RidgeInputs& in, const RidgeState& state) {
  with_type(state.m, [&]<class T>(T) {
    pool_.for_each(state.m.elements(), [&](std::int64_t i) { write_key<T>(in, state, i); });
  });
}

void CpuBackend::ridge_write_value(const Tensor& v, const RidgeState& state) {
  with_type(state.m, [&]<class T>(T) {
    pool_.for_each(state.m.elements(), [&](std::int64_t i) { write_value<T>(v, state, i); });
  });
}

void CpuBackend::ridge_answer(const RidgeConfig& config, const RidgeInputs& in, const RidgeState& state,
                              const RidgeSaved& saved, const Tensor& y) {
  const Sizes s(config, in);
  with_type(y, [&]<class T>(T) {
    pool_.for_each(state.m.elements(), [&](std::int64_t i) { answer_query<T>(config, in, state, saved, s, i, y); });
  });
}

}  // namespace afterglow
