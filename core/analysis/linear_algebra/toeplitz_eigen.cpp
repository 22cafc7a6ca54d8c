// The closed form of the exponential kernel, and Lanczos for every other one.
#include "core/analysis/linear_algebra/toeplitz_eigen.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <unsupported/Eigen/FFT>

#include "core/analysis/linear_algebra/krylov.h"

namespace afterglow {
namespace {

using Eigen::Index;

constexpr double wanted_residual = 1e-14;  // of the largest eigenvalue
constexpr Index min_steps_between_looks = 8;

/// The only root of f between the two, where f changes from plus to minus.
template <class Function>
double root_between(double low, double high, const Function& f) {
  for (double middle = 0.5 * (low + high); middle > low && middle < high; middle = 0.5 * (low + high))
    (f(middle) > 0 ? low : high) = middle;
  return 0.5 * (low + high);
}

/// The angle of the k-th pair (k from 1): the only root of f in ((k - 1) pi / (n + 1), k pi / (n + 1)), where f changes
/// from plus to minus. Odd k have even vectors.
double exponential_angle(double rate, Index n, Index k) {
  const double rho = std::exp(-rate), outer = 0.5 * static_cast<double>(n + 1),
               inner = 0.5 * static_cast<double>(n - 1);
  const double step = std::numbers::pi / static_cast<double>(n + 1);
  const bool is_even = k % 2 == 1;
  const double sign = (k - 1) / 2 % 2 == 0 ? 1.0 : -1.0;
  const auto f = [&](double angle) {
    return sign * (is_even ? std::cos(outer * angle) - rho * std::cos(inner * angle)
                           : std::sin(outer * angle) - rho * std::sin(inner * angle));
  };
  return root_between(step * static_cast<double>(k - 1), step * static_cast<double>(k), f);
}

/// Eigenvalue k (from 1) of e^(-|u - v|) on [0, 1]: 2/(1 + w²), w the root of cos(w/2) = w sin(w/2) for even functions
/// (odd k) and of sin(w/2) = -w cos(w/2) for odd ones, in ((k - 1) pi, k pi).
double continuous_eigenvalue(int k) {
  const bool is_even = k % 2 == 1;
  const double sign = (k - 1) / 2 % 2 == 0 ? 1.0 : -1.0;
  const auto f = [&](double w) {
    return sign * (is_even ? std::cos(w / 2) - w * std::sin(w / 2) : std::sin(w / 2) + w * std::cos(w / 2));
  };
  const double w = root_between(std::numbers::pi * (k - 1), std::numbers::pi * k, f);
  return 2 / (1 + w * w);
}

/// Products with a symmetric Toeplitz matrix, as part of a circulant one of a power of two rows.
class ToeplitzProduct {
 public:
  explicit ToeplitzProduct(std::span<const double> first_column) : rows_(static_cast<Index>(first_column.size())) {
    Index size = 2;
    while (size < 2 * rows_) size *= 2;
    time_.assign(static_cast<std::size_t>(size), 0.0);
    frequency_.resize(time_.size());
    for (Index i = 0; i < rows_; ++i) {
      time_[static_cast<std::size_t>(i)] = first_column[static_cast<std::size_t>(i)];
      if (i > 0) time_[static_cast<std::size_t>(size - i)] = first_column[static_cast<std::size_t>(i)];
    }
    transform_.fwd(frequency_.data(), time_.data(), size);
    for (const std::complex<double>& value : frequency_) symbol_.push_back(value.real());
  }

  /// Two real vectors at once, as real and imaginary part.
  void apply(Eigen::VectorXcd& x) {
    const auto size = static_cast<Index>(time_.size());
    std::fill(std::ranges::copy(x, time_.begin()).out, time_.end(), 0.0);
    transform_.fwd(frequency_.data(), time_.data(), size);
    for (std::size_t i = 0; i < symbol_.size(); ++i) frequency_[i] *= symbol_[i];
    transform_.inv(time_.data(), frequency_.data(), size);
    std::copy(time_.begin(), time_.begin() + rows_, x.begin());
  }

 private:
  Index rows_;
  std::vector<double> symbol_;
  std::vector<std::complex<double>> time_, frequency_;
  Eigen::FFT<double> transform_;
};

/// The Krylov space of the even or the odd vectors, which a symmetric Toeplitz matrix leaves among themselves. A vector
/// is given by its first half, times sqrt(2) so that its norm is that of the whole.
class HalfSpace {
 public:
  HalfSpace(Index rows, double sign, Index wanted)
      : rows_(rows), sign_(sign), krylov_(start((rows + (sign > 0 ? 1 : 0)) / 2, rows, sign, wanted)) {}

  bool is_complete() const { return krylov_.is_complete(); }
  Eigen::VectorXd newest() const { return whole(krylov_.newest()); }
  void advance(const Eigen::VectorXd& product) { krylov_.advance(half(product)); }
  Krylov::Ritz ritz() const { return krylov_.ritz(); }
  Eigen::VectorXd vector(const Eigen::Ref<const Eigen::VectorXd>& in_basis) const {
    return whole(krylov_.vector(in_basis)).normalized();
  }

 private:
  /// Smooth kernels have nearly cosines for eigenvectors; all of the wanted ones have a part in the start.
  static Eigen::VectorXd start(Index size, Index rows, double sign, Index wanted) {
    Eigen::VectorXd start = Eigen::VectorXd::Zero(size);
    for (Index k = sign > 0 ? 0 : 1; k < std::min(2 * wanted, rows); k += 2) {
      for (Index i = 0; i < size; ++i)
        start[i] += std::cos(std::numbers::pi * static_cast<double>(k) * (static_cast<double>(i) + 0.5) /
                             static_cast<double>(rows));
    }
    return start;
  }

  Eigen::VectorXd half(const Eigen::VectorXd& whole) const {
    Eigen::VectorXd x((rows_ + (sign_ > 0 ? 1 : 0)) / 2);
    for (Index i = 0; i < x.size(); ++i) {
      const Index mirror = rows_ - 1 - i;
      x[i] = mirror == i ? whole[i] : std::numbers::sqrt2 * 0.5 * (whole[i] + sign_ * whole[mirror]);
    }
    return x;
  }

  Eigen::VectorXd whole(const Eigen::Ref<const Eigen::VectorXd>& half) const {
    Eigen::VectorXd x(rows_);
    for (Index i = 0; i < half.size(); ++i) {
      const Index mirror = rows_ - 1 - i;
      x[i] = mirror == i ? half[i] : half[i] / std::numbers::sqrt2;
      if (mirror != i) x[mirror] = sign_ * x[i];
    }
    if (sign_ < 0 && rows_ % 2 == 1) x[rows_ / 2] = 0.0;
    return x;
  }

  Index rows_;
  double sign_;
  Krylov krylov_;
};

/// A Ritz pair of the even (0) or odd (1) vectors.
struct Candidate {
  double value, residual;
  int parity;
  Index place;
};

std::vector<Candidate> best_candidates(const Krylov::Ritz (&ritz)[2], Index count) {
  std::vector<Candidate> all;
  for (const int parity : {0, 1}) {
    for (Index i = 0; i < ritz[parity].values.size(); ++i)
      all.push_back({ritz[parity].values[i], ritz[parity].residuals[i], parity, i});
  }
  std::ranges::stable_sort(all, [](const Candidate& a, const Candidate& b) { return a.value > b.value; });
  all.resize(std::min(all.size(), static_cast<std::size_t>(count)));
  return all;
}

}  // namespace

ToeplitzPairs exponential_pairs(double rate, int n, int count) {
  ToeplitzPairs pairs;
  const double rho = std::exp(-rate), distance = -std::expm1(-rate), middle = 0.5 * static_cast<double>(n - 1);
  for (int k = 0; k < count; ++k) {
    const double angle = exponential_angle(rate, n, k + 1), half = std::sin(0.5 * angle);
    pairs.values.push_back(distance * (1.0 + rho) / (distance * distance + 4.0 * rho * half * half));
    Eigen::VectorXd vector(n);
    for (Index i = 0; i < (n + 1) / 2; ++i) {
      const double phase = (static_cast<double>(i) - middle) * angle;
      vector[i] = k % 2 == 0 ? std::cos(phase) : std::sin(phase);
      vector[n - 1 - i] = k % 2 == 0 ? vector[i] : -vector[i];
    }
    vector.normalize();
    pairs.vectors.insert(pairs.vectors.end(), vector.begin(), vector.end());
  }
  return pairs;
}

ToeplitzPairs toeplitz_pairs(std::span<const double> first_column, int count) {
  const auto rows = static_cast<Index>(first_column.size());
  ToeplitzProduct product(first_column);
  HalfSpace spaces[] = {{rows, 1.0, count}, {rows, -1.0, count}};
  Krylov::Ritz ritz[2];
  std::vector<Candidate> best;
  Eigen::VectorXcd both(rows);
  Index next_look = count;
  for (Index step = 1;; ++step) {
    both.setZero();
    if (!spaces[0].is_complete()) both.real() = spaces[0].newest();
    if (!spaces[1].is_complete()) both.imag() = spaces[1].newest();
    product.apply(both);
    if (!spaces[0].is_complete()) spaces[0].advance(both.real());
    if (!spaces[1].is_complete()) spaces[1].advance(both.imag());
    const bool is_over = spaces[0].is_complete() && spaces[1].is_complete();
    if (!is_over && step < next_look) continue;
    next_look = step + std::max(min_steps_between_looks, step / 4);
    for (const int parity : {0, 1}) ritz[parity] = spaces[parity].ritz();
    best = best_candidates(ritz, count);
    const bool has_converged = std::ranges::all_of(best, [&](const Candidate& candidate) {
      return candidate.residual <= wanted_residual * std::abs(best.front().value);
    });
    if (is_over || has_converged) break;
  }
  ToeplitzPairs pairs;
  for (const Candidate& from : best) {
    pairs.values.push_back(from.value);
    const Eigen::VectorXd vector = spaces[from.parity].vector(ritz[from.parity].vectors.col(from.place));
    pairs.vectors.insert(pairs.vectors.end(), vector.begin(), vector.end());
  }
  return pairs;
}

std::vector<KlLimit> kl_limits(double tau, int count, std::span<const int> rows) {
  std::vector<KlLimit> limits;
  for (int k = 1; k <= count; ++k) limits.push_back({k, {}, {}, {}, tau * continuous_eigenvalue(k)});
  for (const int n : rows) {
    const double weight = tau / (n - 1);
    const ToeplitzPairs weighted = exponential_pairs(1.0 / (n - 1), n, count),
                        shrinking = exponential_pairs(1 / tau, n, count);
    for (std::size_t k = 0; k < limits.size(); ++k) {
      limits[k].rows.push_back(n);
      limits[k].weighted.push_back(weight * weighted.values[k]);
      limits[k].shrinking.push_back(weight * shrinking.values[k]);
    }
  }
  return limits;
}

}  // namespace afterglow
