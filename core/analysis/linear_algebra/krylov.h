// Lanczos with full reorthogonalisation: the outer eigenvalues of a large symmetric matrix that is known by its
// products alone, in float64.
#pragma once
#include <Eigen/Core>
#include <vector>

namespace afterglow {

class Krylov {
 public:
  /// All eigenvectors that are wanted need a part in `start` [n], which is not zero where n > 0.
  explicit Krylov(Eigen::VectorXd start);

  bool is_complete() const { return steps() == size_; }
  Eigen::Index steps() const { return static_cast<Eigen::Index>(diagonal_.size()); }
  /// The newest vector of the basis [n], of length 1; there is one until the space is complete.
  Eigen::VectorXd newest() const { return basis_.col(steps()); }
  /// One step, given the matrix times `newest`.
  void advance(Eigen::VectorXd product);

  struct Ritz {
    Eigen::VectorXd values;     ///< rising
    Eigen::MatrixXd vectors;    ///< in the basis
    Eigen::VectorXd residuals;  ///< |A v - value v|: an eigenvalue is no farther from the value
  };
  /// Empty before the first step, and where the small matrix cannot be decomposed.
  Ritz ritz() const;
  /// A vector of `ritz` among those of the matrix.
  Eigen::VectorXd vector(const Eigen::Ref<const Eigen::VectorXd>& in_basis) const {
    return basis_.leftCols(steps()) * in_basis;
  }

 private:
  void orthogonalise(Eigen::VectorXd& x) const;
  void append(Eigen::VectorXd next, bool is_invariant = false);

  Eigen::Index size_;
  Eigen::MatrixXd basis_;                     // the columns after the newest one are not yet in use
  std::vector<double> diagonal_, couplings_;  // couplings_[i] between i and i + 1
};

}  // namespace afterglow
