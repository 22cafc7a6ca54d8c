// Karhunen-Loeve decomposition of a history of vectors: the orthogonal patterns in time that carry most of its
// variance (Spectral Memory, section 3.3 and appendix A.1, A.2). Always in float64.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/tensor/immovable.h"

namespace afterglow {

enum class KlStrategy : std::uint8_t {
  empirical,  ///< A: the covariance of the history itself (eq. 7)
  kernel,     ///< B: a smooth kernel over time, whatever the history (eq. 9)
};
enum class KlKernel : std::uint8_t {
  exponential,
  gauss,
  matern,       ///< (1 + r/s) e^(-r/s), as the official code has it
  matern_eq21,  ///< (1 + r) e^(-r/s), as eq. 21 is printed
};

struct KlConfig {
  KlStrategy strategy = KlStrategy::empirical;
  KlKernel kernel = KlKernel::exponential;
  double tau = 64.0;           ///< time scale of the kernel in rows of the history, > 0
  int components = 16;         ///< K
  bool lambda_scaling = true;  ///< whether components carry the factor sqrt(eigenvalue)
};

/// "empirical", "kernel" and "exp", "gauss", "matern", "matern_eq21", as configurations name them; false when there is
/// no such name.
bool parse_kl_strategy(const std::string& name, KlStrategy& strategy);
bool parse_kl_kernel(const std::string& name, KlKernel& kernel);

/// K = min(components, T) modes of a history of T rows and d columns, by falling eigenvalue.
struct KlDecomposition {
  int rows = 0, width = 0, count = 0;  ///< T, d, K
  std::vector<double> components;      ///< [K, d] = sqrt(eigenvalue + 1e-12) modes^T Hc (eq. 8), Hc the centred history
  std::vector<double> eigenvalues;     ///< [K], of Hc Hc^T / T or of the kernel matrix; never negative
  /// [T, K], orthonormal columns. Of the entries whose magnitude is at least 0.999 of the largest, the first is
  /// positive.
  std::vector<double> modes;
  double variance = 0.0;  ///< |Hc|_F^2 / T, the sum of all empirical eigenvalues
};

/// history [T, d], row-major. Empty (count 0) when T or d is 0, a value is not finite, or the iteration fails.
/// Strategy A diagonalises the smaller of Hc Hc^T / T and Hc^T Hc / T; modes without variance are any orthonormal
/// completion. Strategy B diagonalises tau / (T - 1) k(|t_i - t_j|) on the grid t_i = i / (T - 1) with length scale
/// s = tau / T: exp(-r/s), exp(-r^2 / (2 s^2)), (1 + r/s) exp(-r/s) or (1 + r) exp(-r/s), plus 1e-8 (1e-6 above 2048
/// rows) on the diagonal; the matrix is never formed (toeplitz_eigen.h).
KlDecomposition kl_decompose(const KlConfig& config, std::span<const double> history, int rows, int width);

/// [K]: the share of the history's variance that the first modes of strategy A carry together, at most 1; zeros where
/// there is no variance. Of strategy B the sums of the kernel's eigenvalues over that variance, which are no shares.
std::vector<double> kl_explained_variance(const KlDecomposition& kl);

/// |Hc - Psi_k Psi_k^T Hc|_F / |Hc|_F for k = 0 .. K: what is lost by keeping the first k modes; 0 for a constant
/// history.
std::vector<double> kl_reconstruction_errors(const KlDecomposition& kl, std::span<const double> history);

/// The last rows of a growing sequence, at most `capacity`, ready to be decomposed after every row. The sums that
/// strategy A needs are kept by blocks of rows, by pairs of them and so on, and merged without cancellation, so a
/// decomposition costs O(T d K + d^3 + d^2 log T), equals kl_decompose within rounding, and depends on the rows and
/// `appended` alone, not on how they came. Strategy B looks its modes up while the number of rows is one of the last
/// eight.
class KlHistory : Immovable {
 public:
  KlHistory(int width, int capacity);
  ~KlHistory();

  void append(std::span<const double> row);
  /// Takes over rows [min(appended, capacity), width], oldest first: the last of `appended` rows that ever came.
  void assign(std::span<const double> rows, std::int64_t appended);
  int rows() const;
  int width() const;
  int capacity() const;
  std::int64_t appended() const;
  /// [rows, width], oldest first; with `last` > 0 only so many of the newest rows, here and below.
  std::vector<double> values(int last = 0) const;
  /// With `last` what a history of that capacity gives, `components` to the bit.
  KlDecomposition decompose(const KlConfig& config, int last = 0) const;
  /// The same without `modes`, which stay empty, at about half the cost with strategy A.
  KlDecomposition components(const KlConfig& config, int last = 0) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace afterglow
