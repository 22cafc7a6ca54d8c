// Grows a Krylov space by one product at a time.
#include "core/analysis/linear_algebra/krylov.h"

#include <algorithm>
#include <utility>

#include "core/analysis/linear_algebra/decompositions.h"

namespace afterglow {
namespace {
using Eigen::Index;
constexpr double least_part = 1e-14;  // of a product that the basis does not hold; less than that is rounding
}  // namespace

Krylov::Krylov(Eigen::VectorXd start) : size_(start.size()) {
  if (size_ > 0) append(std::move(start));
}

void Krylov::advance(Eigen::VectorXd product) {
  const double scale = product.norm();
  diagonal_.push_back(basis_.col(steps()).dot(product));
  if (is_complete()) return;
  orthogonalise(product);
  const double left = product.norm();
  // An invariant subspace is exhausted; the search continues in its complement.
  const bool is_invariant = !(left > least_part * scale);
  couplings_.push_back(is_invariant ? 0.0 : left);
  append(std::move(product), is_invariant);
}

Krylov::Ritz Krylov::ritz() const {
  const Index n = steps();
  if (n == 0) return {};
  const Eigen::Map<const Eigen::VectorXd> diagonal(diagonal_.data(), n), couplings(couplings_.data(), n - 1);
  SymmetricEigenpairs pairs = tridiagonal_eigenpairs(diagonal, couplings);
  if (pairs.values.size() == 0) return {};
  const double coupling = is_complete() ? 0.0 : couplings_.back();
  Eigen::VectorXd residuals = coupling * pairs.vectors.row(n - 1).transpose().cwiseAbs();
  return {std::move(pairs.values), std::move(pairs.vectors), std::move(residuals)};
}

// Twice is enough.
void Krylov::orthogonalise(Eigen::VectorXd& x) const {
  const Index known = steps();
  for (int pass = 0; pass < 2; ++pass) {
    const Eigen::VectorXd shares = basis_.leftCols(known).transpose() * x;
    x.noalias() -= basis_.leftCols(known) * shares;
  }
}

void Krylov::append(Eigen::VectorXd next, bool is_invariant) {
  for (Index candidate = 0; is_invariant && candidate < size_; ++candidate) {
    next = Eigen::VectorXd::Unit(size_, candidate);
    orthogonalise(next);
    is_invariant = next.norm() < 1e-3;
  }
  const Index column = steps();
  if (basis_.cols() <= column) basis_.conservativeResize(size_, std::min(size_, std::max<Index>(32, 2 * column)));
  basis_.col(column) = next.normalized();
}

}  // namespace afterglow
