// The closed form of the exponential kernel, and Lanczos for every other one.
#include "core/analysis/linear_algebra/toeplitz_eigen.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <unsupported/Eigen/FFT>
#include <vector>

#include "core/analysis/linear_algebra/decompositions.h"

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
    std::fill(std::copy(x.begin(), x.end(), time_.begin()), time_.end(), 0.0);
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
class Krylov {
 public:
  Krylov(Index rows, double sign, Index wanted) : rows_(rows), size_((rows + (sign > 0 ? 1 : 0)) / 2), sign_(sign) {
    // Smooth kernels have nearly cosines for eigenvectors; all of the wanted ones have a part in the start.
    Eigen::VectorXd start = Eigen::VectorXd::Zero(size_);
    for (Index k = sign > 0 ? 0 : 1; k < std::min(2 * wanted, rows); k += 2) {
      for (Index i = 0; i < size_; ++i)
        start[i] += std::cos(std::numbers::pi * static_cast<double>(k) * (static_cast<double>(i) + 0.5) /
                             static_cast<double>(rows));
    }
    if (size_ > 0) append(std::move(start));
  }

  bool is_complete() const { return steps() == size_; }
  Index steps() const { return static_cast<Index>(diagonal_.size()); }

  Eigen::VectorXd newest() const { return whole(basis_.col(steps())); }

  /// A step of Lanczos, given the matrix times `newest`.
  void advance(const Eigen::VectorXd& product) {
    Eigen::VectorXd next(size_);
    for (Index i = 0; i < size_; ++i) {
      const Index mirror = rows_ - 1 - i;
      next[i] = mirror == i ? product[i] : std::numbers::sqrt2 * 0.5 * (product[i] + sign_ * product[mirror]);
    }
    const double scale = next.norm();
    diagonal_.push_back(basis_.col(steps()).dot(next));
    if (is_complete()) return;
    orthogonalise(next);
    const double left = next.norm();
    // An invariant space is exhausted; the search goes on beside it.
    const bool is_invariant = !(left > wanted_residual * scale);
    couplings_.push_back(is_invariant ? 0.0 : left);
    append(std::move(next), is_invariant);
  }

  struct Ritz {
    Eigen::VectorXd values;     // rising
    Eigen::MatrixXd vectors;    // in the basis
    Eigen::VectorXd residuals;  // |A v - value v|
  };
  Ritz ritz() const {
    const Index n = steps();
    if (n == 0) return {};
    const Eigen::Map<const Eigen::VectorXd> diagonal(diagonal_.data(), n), couplings(couplings_.data(), n - 1);
    SymmetricEigenpairs pairs = tridiagonal_eigenpairs(diagonal, couplings);
    if (pairs.values.size() == 0) return {};
    const double coupling = is_complete() ? 0.0 : couplings_.back();
    Eigen::VectorXd residuals = coupling * pairs.vectors.row(n - 1).transpose().cwiseAbs();
    return {std::move(pairs.values), std::move(pairs.vectors), std::move(residuals)};
  }

  Eigen::VectorXd vector(const Eigen::Ref<const Eigen::VectorXd>& in_basis) const {
    return whole(basis_.leftCols(steps()) * in_basis).normalized();
  }

 private:
  // Twice is enough.
  void orthogonalise(Eigen::VectorXd& x) const {
    const Index known = steps();
    for (int pass = 0; pass < 2; ++pass) {
      const Eigen::VectorXd shares = basis_.leftCols(known).transpose() * x;
      x.noalias() -= basis_.leftCols(known) * shares;
    }
  }

  void append(Eigen::VectorXd next, bool is_invariant = false) {
    for (Index candidate = 0; is_invariant && candidate < size_; ++candidate) {
      next = Eigen::VectorXd::Unit(size_, candidate);
      orthogonalise(next);
      is_invariant = next.norm() < 1e-3;
    }
    const Index column = steps();
    if (basis_.cols() <= column) basis_.conservativeResize(size_, std::min(size_, std::max<Index>(32, 2 * column)));
    basis_.col(column) = next.normalized();
  }

  Eigen::VectorXd whole(const Eigen::Ref<const Eigen::VectorXd>& half) const {
    Eigen::VectorXd x(rows_);
    for (Index i = 0; i < size_; ++i) {
      const Index mirror = rows_ - 1 - i;
      x[i] = mirror == i ? half[i] : half[i] / std::numbers::sqrt2;
      if (mirror != i) x[mirror] = sign_ * x[i];
    }
    if (sign_ < 0 && rows_ % 2 == 1) x[rows_ / 2] = 0.0;
    return x;
  }

  Index rows_, size_;
  double sign_;
  Eigen::MatrixXd basis_;                     // the columns behind the newest one are not yet in use
  std::vector<double> diagonal_, couplings_;  // couplings_[i] between i and i + 1
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
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.value > b.value; });
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
  Krylov spaces[] = {{rows, 1.0, count}, {rows, -1.0, count}};
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
    const bool has_converged = std::all_of(best.begin(), best.end(), [&](const Candidate& candidate) {
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
