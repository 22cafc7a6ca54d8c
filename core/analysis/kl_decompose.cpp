// Karhunen-Loeve modes: the two strategies, and the history that is decomposed after every row.
#include "core/analysis/kl_decompose.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <deque>

#include "core/analysis/symmetric_eigen.h"

namespace afterglow {

namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Rows = Eigen::Map<const RowMajor>;

constexpr double least_eigenvalue = 1e-12;  // under the root of eq. 8
constexpr double null_share = 1e-13;        // of the largest eigenvalue: below it a direction is rounding
constexpr double nearly_largest = 0.999;

/// An eigenvector's sign is free: the first of its entries that are nearly the largest is to be positive.
bool has_wrong_sign(const Eigen::Ref<const Eigen::VectorXd>& mode) {
  const double least = nearly_largest * mode.cwiseAbs().maxCoeff();
  const auto first = std::find_if(mode.begin(), mode.end(), [&](double entry) { return std::abs(entry) >= least; });
  return first != mode.end() && *first < 0;
}

/// Makes column k of `modes` a unit vector orthogonal to the columns before it.
void complete_column(Eigen::MatrixXd& modes, Eigen::Index k) {
  for (Eigen::Index candidate = 0; candidate < modes.rows(); ++candidate) {
    Eigen::VectorXd column = Eigen::VectorXd::Unit(modes.rows(), candidate);
    for (int pass = 0; pass < 2; ++pass) column -= modes.leftCols(k) * (modes.leftCols(k).transpose() * column);
    const double norm = column.norm();
    if (norm < 1e-3) continue;
    modes.col(k) = column / norm;
    return;
  }
}

/// Eigenpairs, largest first.
struct Pairs {
  Eigen::VectorXd values;   // [K]
  Eigen::MatrixXd vectors;  // [n, K]
};

Pairs largest_pairs(const RowMajor& matrix, Eigen::Index count) {
  const Eigen::Index n = matrix.rows();
  const SymmetricEigen eigen =
      symmetric_eigen({matrix.data(), static_cast<std::size_t>(matrix.size())}, static_cast<int>(n));
  if (eigen.values.empty()) return {};
  Pairs result{Eigen::VectorXd(count), Eigen::MatrixXd(n, count)};
  for (Eigen::Index k = 0; k < count; ++k) {
    const Eigen::Index from = n - 1 - k;
    result.values[k] = std::max(0.0, eigen.values[static_cast<std::size_t>(from)]);
    result.vectors.col(k) = Eigen::Map<const Eigen::VectorXd>(eigen.vectors.data() + from * n, n);
  }
  return result;
}

/// Modes in time with what they find in the centred history.
struct Modes {
  Eigen::VectorXd eigenvalues;   // [K], falling
  Eigen::MatrixXd modes;         // [T, K]
  Eigen::MatrixXd coefficients;  // [d, K] = Hc^T modes
};

double kernel_value(KlKernel kernel, double ratio) {
  switch (kernel) {
    case KlKernel::gauss:
      return std::exp(-0.5 * ratio * ratio);
    case KlKernel::matern:
      return (1.0 + ratio) * std::exp(-ratio);
    case KlKernel::exponential:
      break;
  }
  return std::exp(-ratio);
}

Pairs kernel_pairs(const KlConfig& config, Eigen::Index rows, Eigen::Index count) {
  const double intervals = static_cast<double>(std::max<Eigen::Index>(1, rows - 1));
  const double scale = config.tau / static_cast<double>(rows);
  const double jitter = rows > 2048 ? 1e-6 : 1e-8;
  RowMajor matrix(rows, rows);
  for (Eigen::Index i = 0; i < rows; ++i) {
    for (Eigen::Index j = 0; j <= i; ++j) {
      const double distance = static_cast<double>(i - j) / intervals;
      matrix(j, i) = matrix(i, j) = config.tau / intervals * kernel_value(config.kernel, distance / scale);
    }
    matrix(i, i) += jitter;
  }
  return largest_pairs(matrix, count);
}

Modes modes_of(Pairs pairs, const RowMajor& centred) {
  Eigen::MatrixXd coefficients = centred.transpose() * pairs.vectors;
  return {std::move(pairs.values), std::move(pairs.vectors), std::move(coefficients)};
}

/// By the temporal covariance [T, T].
Modes modes_over_time(const RowMajor& centred, Eigen::Index count) {
  return modes_of(largest_pairs(centred * centred.transpose() / static_cast<double>(centred.rows()), count), centred);
}

/// By the covariance of the features [d, d]: its eigenvector v gives the mode Hc v / |Hc v|, which finds |Hc v| v.
/// `project` answers Hc V for columns V.
template <class Project>
Modes modes_over_features(const RowMajor& covariance, Eigen::Index rows, Eigen::Index count, const Project& project) {
  const Eigen::Index width = covariance.rows(), known = std::min(count, width);
  const Pairs features = largest_pairs(covariance, known);
  if (features.values.size() == 0) return {};
  Modes result{Eigen::VectorXd::Zero(count), Eigen::MatrixXd::Zero(rows, count), Eigen::MatrixXd::Zero(width, count)};
  result.eigenvalues.head(known) = features.values;
  result.modes.leftCols(known) = project(features.vectors);
  const double null = null_share * features.values[0];
  for (Eigen::Index k = 0; k < count; ++k) {
    const double norm = result.modes.col(k).norm();
    if (result.eigenvalues[k] > null && norm > 0) {
      result.modes.col(k) /= norm;
      result.coefficients.col(k) = norm * features.vectors.col(k);
    } else {
      complete_column(result.modes, k);
    }
  }
  return result;
}

KlDecomposition finished(const KlConfig& config, double variance, Modes found) {
  KlDecomposition kl;
  const Eigen::Index count = found.eigenvalues.size(), rows = found.modes.rows(), width = found.coefficients.rows();
  if (count == 0) return kl;
  for (Eigen::Index k = 0; k < count; ++k) {
    if (!has_wrong_sign(found.modes.col(k))) continue;
    found.modes.col(k) *= -1;
    found.coefficients.col(k) *= -1;
  }
  if (config.lambda_scaling) {
    found.coefficients *= (found.eigenvalues.array() + least_eigenvalue).sqrt().matrix().asDiagonal();
  }
  kl.rows = static_cast<int>(rows);
  kl.width = static_cast<int>(width);
  kl.count = static_cast<int>(count);
  kl.components.assign(found.coefficients.data(), found.coefficients.data() + found.coefficients.size());
  kl.eigenvalues.assign(found.eigenvalues.begin(), found.eigenvalues.end());
  kl.modes.resize(static_cast<std::size_t>(found.modes.size()));
  Eigen::Map<RowMajor>(kl.modes.data(), rows, count) = found.modes;
  kl.variance = variance;
  return kl;
}

/// Mean and centred second moment sum (x - mean)(x - mean)^T of some rows; two of them merge into that of both without
/// cancellation (Chan, Golub and LeVeque).
struct Moments {
  double count = 0;
  Eigen::VectorXd mean;
  Eigen::MatrixXd second;

  explicit Moments(int width) : mean(Eigen::VectorXd::Zero(width)), second(Eigen::MatrixXd::Zero(width, width)) {}
  explicit Moments(const Eigen::Ref<const RowMajor>& rows)
      : count(static_cast<double>(rows.rows())), mean(rows.colwise().mean()) {
    const RowMajor centred = rows.rowwise() - mean.transpose();
    second.noalias() = centred.transpose() * centred;
  }
  void merge(const Moments& other) {
    const double total = count + other.count;
    const Eigen::VectorXd apart = other.mean - mean;
    second += other.second;
    second.noalias() += (count * other.count / total) * apart * apart.transpose();
    mean += (other.count / total) * apart;
    count = total;
  }
};

}  // namespace

bool parse_kl_strategy(const std::string& name, KlStrategy& strategy) {
  strategy = name == "kernel" ? KlStrategy::kernel : KlStrategy::empirical;
  return name == "empirical" || name == "kernel";
}

bool parse_kl_kernel(const std::string& name, KlKernel& kernel) {
  kernel = name == "gauss" ? KlKernel::gauss : name == "matern" ? KlKernel::matern : KlKernel::exponential;
  return name == "exp" || name == "gauss" || name == "matern";
}

KlDecomposition kl_decompose(const KlConfig& config, std::span<const double> history, int rows, int width) {
  if (rows <= 0 || width <= 0 || history.size() != static_cast<std::size_t>(rows) * width) return {};
  const Rows all(history.data(), rows, width);
  if (!all.allFinite()) return {};
  const RowMajor centred = all.rowwise() - all.colwise().mean();
  const Eigen::Index count = std::min(config.components, rows);
  const double variance = centred.squaredNorm() / rows;
  if (config.strategy == KlStrategy::kernel)
    return finished(config, variance, modes_of(kernel_pairs(config, rows, count), centred));
  if (rows <= width) return finished(config, variance, modes_over_time(centred, count));
  const auto project = [&](const Eigen::MatrixXd& vectors) -> Eigen::MatrixXd { return centred * vectors; };
  const RowMajor covariance = centred.transpose() * centred / static_cast<double>(rows);
  return finished(config, variance, modes_over_features(covariance, rows, count, project));
}

std::vector<double> kl_reconstruction_errors(const KlDecomposition& kl, std::span<const double> history) {
  const Rows all(history.data(), kl.rows, kl.width);
  const RowMajor centred = all.rowwise() - all.colwise().mean();
  const Rows modes(kl.modes.data(), kl.rows, kl.count);
  const Eigen::VectorXd energy = (modes.transpose() * centred).rowwise().squaredNorm();
  const double total = centred.squaredNorm();
  std::vector<double> errors;
  double left = total;
  for (int k = 0; k <= kl.count; ++k) {
    errors.push_back(total > 0 ? std::sqrt(std::max(0.0, left) / total) : 0.0);
    if (k < kl.count) left -= energy[k];
  }
  return errors;
}

struct KlHistory::State {
  static constexpr std::int64_t block = 64;  // rows
  int width, capacity;
  std::int64_t appended = 0;
  std::deque<Moments> blocks;   // the whole blocks inside the window; blocks are counted from the first row ever
  RowMajor ring;                // row i lies at i % capacity
  mutable Pairs cached_kernel;  // they depend on the number of rows alone
  mutable KlConfig cached_for;

  State(int w, int c) : width(w), capacity(c), ring(RowMajor::Zero(c, w)) {}
  std::int64_t first() const { return std::max<std::int64_t>(0, appended - capacity); }

  RowMajor range(std::int64_t begin, std::int64_t end) const {
    RowMajor rows(end - begin, width);
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t slot = i % capacity, run = std::min<std::int64_t>(end - i, capacity - slot);
      rows.middleRows(i - begin, run) = ring.middleRows(slot, run);
      i += run;
    }
    return rows;
  }

  /// Hc V, straight from the ring.
  Eigen::MatrixXd project(const Eigen::MatrixXd& vectors, const Eigen::VectorXd& mean) const {
    Eigen::MatrixXd result(appended - first(), vectors.cols());
    for (std::int64_t i = first(); i < appended;) {
      const std::int64_t slot = i % capacity, run = std::min<std::int64_t>(appended - i, capacity - slot);
      result.middleRows(i - first(), run).noalias() = ring.middleRows(slot, run) * vectors;
      i += run;
    }
    result.rowwise() -= (mean.transpose() * vectors).eval();
    return result;
  }

  void append(std::span<const double> row) {
    ring.row(appended % capacity) = Eigen::Map<const Eigen::RowVectorXd>(row.data(), width);
    const std::int64_t was_first = (first() + block - 1) / block;
    ++appended;
    if ((first() + block - 1) / block > was_first && !blocks.empty()) blocks.pop_front();
    if (appended % block == 0 && appended - block >= first()) blocks.emplace_back(range(appended - block, appended));
  }

  void rebuild_blocks() {
    blocks.clear();
    for (std::int64_t begin = (first() + block - 1) / block * block; begin + block <= appended; begin += block)
      blocks.emplace_back(range(begin, begin + block));
  }

  Moments moments() const {
    Moments all(width);
    const std::int64_t whole = (first() + block - 1) / block * block;  // where the first whole block begins
    const std::int64_t begin = std::min(whole, appended);
    if (begin > first()) all.merge(Moments(range(first(), begin)));
    for (const Moments& part : blocks) all.merge(part);
    const std::int64_t done = begin + static_cast<std::int64_t>(blocks.size()) * block;
    if (appended > done) all.merge(Moments(range(done, appended)));
    return all;
  }

  const Pairs& kernel(const KlConfig& config, Eigen::Index rows, Eigen::Index count) const {
    if (cached_kernel.vectors.rows() != rows || cached_kernel.vectors.cols() != count ||
        cached_for.kernel != config.kernel || cached_for.tau != config.tau) {
      cached_kernel = kernel_pairs(config, rows, count);
      cached_for = config;
    }
    return cached_kernel;
  }
};

KlHistory::KlHistory(int width, int capacity) : state_(std::make_unique<State>(width, capacity)) {}
KlHistory::~KlHistory() = default;
int KlHistory::rows() const { return static_cast<int>(state_->appended - state_->first()); }
int KlHistory::width() const { return state_->width; }
int KlHistory::capacity() const { return state_->capacity; }
std::int64_t KlHistory::appended() const { return state_->appended; }
void KlHistory::append(std::span<const double> row) { state_->append(row); }

void KlHistory::assign(std::span<const double> rows, std::int64_t appended) {
  const auto count = static_cast<std::int64_t>(rows.size()) / state_->width;
  for (std::int64_t i = 0; i < count; ++i) {
    state_->ring.row((appended - count + i) % state_->capacity) =
        Eigen::Map<const Eigen::RowVectorXd>(rows.data() + i * state_->width, state_->width);
  }
  state_->appended = appended;
  state_->rebuild_blocks();
}

std::vector<double> KlHistory::values() const {
  const RowMajor rows = state_->range(state_->first(), state_->appended);
  return {rows.data(), rows.data() + rows.size()};
}

KlDecomposition KlHistory::decompose(const KlConfig& config) const {
  const Eigen::Index count_rows = rows(), count = std::min<Eigen::Index>(config.components, count_rows);
  if (count_rows == 0) return {};
  const Moments moments = state_->moments();
  if (!moments.second.allFinite()) return {};
  const double variance = moments.second.trace() / static_cast<double>(count_rows);
  if (config.strategy == KlStrategy::empirical && count_rows > width()) {
    const RowMajor covariance = moments.second / static_cast<double>(count_rows);
    const auto project = [&](const Eigen::MatrixXd& vectors) { return state_->project(vectors, moments.mean); };
    return finished(config, variance, modes_over_features(covariance, count_rows, count, project));
  }
  RowMajor centred = state_->range(state_->first(), state_->appended);
  centred.rowwise() -= moments.mean.transpose();
  if (config.strategy == KlStrategy::empirical) return finished(config, variance, modes_over_time(centred, count));
  return finished(config, variance, modes_of(state_->kernel(config, count_rows, count), centred));
}

}  // namespace afterglow
