// Karhunen-Loeve modes: the two strategies, and the history that is decomposed after every row.
#include "core/analysis/kl_decompose.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "core/analysis/linear_algebra/decompositions.h"
#include "core/analysis/linear_algebra/symmetric_eigen.h"
#include "core/analysis/linear_algebra/toeplitz_eigen.h"

namespace afterglow {
namespace {

constexpr double min_eigenvalue = 1e-12;  // under the root of eq. 8
constexpr double null_share = 1e-13;      // of the largest eigenvalue: below it a direction is rounding
constexpr double nearly_largest = 0.999;

/// An eigenvector's sign is free: the first of its entries that are nearly the largest is to be positive.
bool has_wrong_sign(const Eigen::Ref<const Eigen::VectorXd>& mode) {
  const double least = nearly_largest * mode.cwiseAbs().maxCoeff();
  const auto first = std::ranges::find_if(mode, [&](double entry) { return std::abs(entry) >= least; });
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

Pairs max_pairs(const RowMajor& matrix, Eigen::Index count) {
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

/// Temporal modes, and the projection of the centred history onto them.
struct Modes {
  Eigen::VectorXd eigenvalues;   // [K], descending
  Eigen::MatrixXd modes;         // [T, K]
  Eigen::MatrixXd coefficients;  // [d, K] = Hc^T modes
};

/// The element of the kernel matrix between rows so far apart, without its factor; `ratio` in length scales, `time` in
/// lengths of the history.
double kernel_value(KlKernel kernel, double ratio, double time) {
  if (kernel == KlKernel::gauss) return std::exp(-0.5 * ratio * ratio);
  return (1.0 + (kernel == KlKernel::matern_eq21 ? time : ratio)) * std::exp(-ratio);
}

/// Equally spaced times make a Toeplitz matrix.
Pairs kernel_pairs(const KlConfig& config, Eigen::Index rows, Eigen::Index count) {
  const double intervals = static_cast<double>(std::max<Eigen::Index>(1, rows - 1));
  const double ratio = static_cast<double>(rows) / (intervals * config.tau);  // of neighbours
  const double jitter = rows > 2048 ? 1e-6 : 1e-8;
  ToeplitzPairs found;
  const auto n = static_cast<int>(rows), wanted = static_cast<int>(count);
  if (config.kernel == KlKernel::exponential) {
    found = exponential_pairs(ratio, n, wanted);
  } else {
    std::vector<double> column(static_cast<std::size_t>(rows));
    for (std::size_t i = 0; i < column.size(); ++i)
      column[i] = kernel_value(config.kernel, ratio * static_cast<double>(i), static_cast<double>(i) / intervals);
    found = toeplitz_pairs(column, wanted);
  }
  // The factor and the jitter move eigenvalues only; below zero is rounding.
  const Eigen::Map<const Eigen::ArrayXd> values(found.values.data(), count);
  return {config.tau / intervals * values.max(0.0) + jitter,
          Eigen::Map<const Eigen::MatrixXd>(found.vectors.data(), rows, count)};
}

Modes modes_of(Pairs pairs, const RowMajor& centred) {
  Eigen::MatrixXd coefficients = centred.transpose() * pairs.vectors;
  return {std::move(pairs.values), std::move(pairs.vectors), std::move(coefficients)};
}

/// By the temporal covariance [T, T].
Modes modes_over_time(const RowMajor& centred, Eigen::Index count) {
  return modes_of(max_pairs(centred * centred.transpose() / static_cast<double>(centred.rows()), count), centred);
}

/// The covariance of the features [d, d] has the same eigenvalues; its eigenvector v stands for the mode
/// Hc v / |Hc v|, which finds |Hc v| v. Below this eigenvalue a direction has no variance.
double null_eigenvalue(const Pairs& features) { return null_share * features.values[0]; }

/// `project` answers Hc V for columns V.
template <class Project>
Modes modes_over_features(const RowMajor& covariance, Eigen::Index rows, Eigen::Index count, const Project& project) {
  const Eigen::Index width = covariance.rows(), known = std::min(count, width);
  const Pairs features = max_pairs(covariance, known);
  if (features.values.size() == 0) return {};
  Modes result{Eigen::VectorXd::Zero(count), Eigen::MatrixXd::Zero(rows, count), Eigen::MatrixXd::Zero(width, count)};
  result.eigenvalues.head(known) = features.values;
  result.modes.leftCols(known) = project(features.vectors);
  for (Eigen::Index k = 0; k < count; ++k) {
    const double norm = result.modes.col(k).norm();
    if (result.eigenvalues[k] > null_eigenvalue(features) && norm > 0) {
      result.modes.col(k) /= norm;
      result.coefficients.col(k) = norm * features.vectors.col(k);
    } else {
      complete_column(result.modes, k);
    }
  }
  return result;
}

/// The same without the modes: |Hc v|^2 is T times the eigenvalue.
Modes coefficients_over_features(const Pairs& features, Eigen::Index rows, Eigen::Index count) {
  const Eigen::Index width = features.vectors.rows(), known = features.values.size();
  Modes result{Eigen::VectorXd::Zero(count), {}, Eigen::MatrixXd::Zero(width, count)};
  result.eigenvalues.head(known) = features.values;
  for (Eigen::Index k = 0; k < known; ++k) {
    if (features.values[k] > null_eigenvalue(features))
      result.coefficients.col(k) = std::sqrt(static_cast<double>(rows) * features.values[k]) * features.vectors.col(k);
  }
  return result;
}

KlDecomposition finished(const KlConfig& config, double variance, Eigen::Index rows, Modes found,
                         const std::vector<bool>& has_wrong_sign) {
  KlDecomposition kl;
  const Eigen::Index count = found.eigenvalues.size(), width = found.coefficients.rows();
  if (count == 0) return kl;
  for (Eigen::Index k = 0; k < count; ++k) {
    if (!has_wrong_sign[static_cast<std::size_t>(k)]) continue;
    if (found.modes.size() > 0) found.modes.col(k) *= -1;
    found.coefficients.col(k) *= -1;
  }
  if (config.lambda_scaling)
    found.coefficients *= (found.eigenvalues.array() + min_eigenvalue).sqrt().matrix().asDiagonal();
  kl.rows = static_cast<int>(rows);
  kl.width = static_cast<int>(width);
  kl.count = static_cast<int>(count);
  kl.components.assign(found.coefficients.data(), found.coefficients.data() + found.coefficients.size());
  kl.eigenvalues.assign(found.eigenvalues.begin(), found.eigenvalues.end());
  kl.modes.resize(static_cast<std::size_t>(found.modes.size()));
  if (found.modes.size() > 0) Eigen::Map<RowMajor>(kl.modes.data(), rows, count) = found.modes;
  kl.variance = variance;
  return kl;
}

KlDecomposition finished(const KlConfig& config, double variance, Modes found) {
  std::vector<bool> wrong;
  for (Eigen::Index k = 0; k < found.modes.cols(); ++k) wrong.push_back(has_wrong_sign(found.modes.col(k)));
  const Eigen::Index rows = found.modes.rows();
  return finished(config, variance, rows, std::move(found), wrong);
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
  kernel = name == "gauss"         ? KlKernel::gauss
           : name == "matern"      ? KlKernel::matern
           : name == "matern_eq21" ? KlKernel::matern_eq21
                                   : KlKernel::exponential;
  return name == "exp" || kernel != KlKernel::exponential;
}

KlDecomposition kl_decompose(const KlConfig& config, std::span<const double> history, int rows, int width) {
  if (rows <= 0 || width <= 0 || history.size() != static_cast<std::size_t>(rows) * width) return {};
  const RowMajorView all(history.data(), rows, width);
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

std::vector<double> kl_explained_variance(const KlDecomposition& kl) {
  std::vector<double> explained;
  double sum = 0;
  for (const double eigenvalue : kl.eigenvalues) {
    sum += eigenvalue;
    explained.push_back(kl.variance > 0 ? std::min(1.0, sum / kl.variance) : 0.0);
  }
  return explained;
}

std::vector<double> kl_reconstruction_errors(const KlDecomposition& kl, std::span<const double> history) {
  const RowMajorView all(history.data(), kl.rows, kl.width);
  const RowMajor centred = all.rowwise() - all.colwise().mean();
  const RowMajorView modes(kl.modes.data(), kl.rows, kl.count);
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
  // Sums over whole blocks, pairs of blocks, pairs of those and so on, as many as lie inside the window. Blocks are
  // counted from the first row ever, so that what is merged with what does not depend on when it was asked for.
  struct Level {
    std::int64_t first = 0;  // index of the front
    std::deque<Moments> sums;
    std::int64_t end() const { return first + static_cast<std::int64_t>(sums.size()); }
  };
  int width, capacity;
  std::int64_t appended = 0;
  std::vector<Level> levels;
  RowMajor ring;  // row i lies at i % capacity
  // They depend on the number of rows alone; some numbers are asked for again and again.
  mutable std::deque<Pairs> cached_kernels;
  mutable KlConfig cached_for;

  State(int w, int c) : width(w), capacity(c), ring(RowMajor::Zero(c, w)) {}
  std::int64_t first() const { return std::max<std::int64_t>(0, appended - capacity); }
  std::int64_t rows() const { return appended - first(); }
  /// The first of the last `last` rows, at most those in the window; 0: all of them.
  std::int64_t begin_of(int last) const { return last > 0 ? std::max(first(), appended - last) : first(); }

  /// Calls use(row of the window, rows of the ring) for each stretch that lies in one piece, at most `most` rows long.
  template <class Use>
  void each_stretch(std::int64_t begin, std::int64_t end, std::int64_t most, const Use& use) const {
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t slot = i % capacity, run = std::min({end - i, capacity - slot, most});
      use(i - begin, ring.middleRows(slot, run));
      i += run;
    }
  }

  RowMajor range(std::int64_t begin, std::int64_t end) const {
    RowMajor rows(end - begin, width);
    each_stretch(begin, end, end - begin,
                 [&](std::int64_t at, const auto& part) { rows.middleRows(at, part.rows()) = part; });
    return rows;
  }

  /// Hc V of the rows from `begin` on, straight from the ring.
  Eigen::MatrixXd project(std::int64_t begin, const Eigen::MatrixXd& vectors, const Eigen::VectorXd& mean) const {
    Eigen::MatrixXd result(appended - begin, vectors.cols());
    each_stretch(begin, appended, appended - begin, [&](std::int64_t at, const auto& part) {
      result.middleRows(at, part.rows()).noalias() = part * vectors;
    });
    result.rowwise() -= (mean.transpose() * vectors).eval();
    return result;
  }

  /// has_wrong_sign of the columns of Hc V. Found in float32, whose rounding is bounded; what could be the deciding
  /// entry is read in float64.
  std::vector<bool> wrong_signs(std::int64_t begin, const Eigen::MatrixXd& vectors, const Eigen::VectorXd& mean) const {
    constexpr std::int64_t at_once = 128;  // rows, so that they stay in the cache
    const Eigen::MatrixXf narrow = vectors.cast<float>();
    Eigen::MatrixXf entries(appended - begin, vectors.cols());
    float longest = 0;
    each_stretch(begin, appended, at_once, [&](std::int64_t at, const auto& part) {
      const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> centred =
          (part.rowwise() - mean.transpose()).template cast<float>();
      longest = std::max(longest, centred.rowwise().squaredNorm().maxCoeff());
      entries.middleRows(at, part.rows()).noalias() = centred * narrow;
    });
    // A product of float32 numbers rounds once an addition, and so do its factors.
    const float rounding = static_cast<float>(width + 8) * 0x1p-24f * std::sqrt(longest);
    std::vector<bool> wrong;
    for (Eigen::Index k = 0; k < vectors.cols(); ++k) {
      const float largest = entries.col(k).cwiseAbs().maxCoeff();
      const float least = static_cast<float>(nearly_largest) * (largest - rounding) - 2.0f * rounding;
      std::vector<double> candidates;
      for (Eigen::Index t = 0; t < entries.rows(); ++t) {
        if (std::abs(entries(t, k)) >= least)
          candidates.push_back((ring.row((begin + t) % capacity) - mean.transpose()).dot(vectors.col(k)));
      }
      const auto number = static_cast<Eigen::Index>(candidates.size());
      wrong.push_back(has_wrong_sign(Eigen::Map<const Eigen::VectorXd>(candidates.data(), number)));
    }
    return wrong;
  }

  void append(std::span<const double> row) {
    ring.row(appended % capacity) = Eigen::Map<const Eigen::RowVectorXd>(row.data(), width);
    ++appended;
    for (std::size_t l = 0; l < levels.size(); ++l) {
      while (!levels[l].sums.empty() && levels[l].first * (block << l) < first()) {
        levels[l].sums.pop_front();
        ++levels[l].first;
      }
    }
    if (appended % block == 0 && appended - block >= first())
      add_sum(0, appended / block - 1, Moments(range(appended - block, appended)));
  }

  /// Where a pair is complete, its sum follows.
  void add_sum(std::size_t l, std::int64_t index, Moments sum) {
    if (levels.size() <= l) levels.emplace_back();
    if (levels[l].sums.empty()) levels[l].first = index;
    levels[l].sums.push_back(std::move(sum));
    if (index % 2 == 0 || levels[l].sums.size() < 2) return;
    Moments pair = levels[l].sums[levels[l].sums.size() - 2];
    pair.merge(levels[l].sums.back());
    add_sum(l + 1, index / 2, std::move(pair));
  }

  void rebuild_sums() {
    levels.clear();
    for (std::int64_t begin = (first() + block - 1) / block * block; begin + block <= appended; begin += block)
      add_sum(0, begin / block, Moments(range(begin, begin + block)));
  }

  /// The longest sum that begins at this row, which begins a block; nullptr if no sum begins there.
  const Moments* longest_sum(std::int64_t begin) const {
    const Moments* found = nullptr;
    for (std::size_t l = 0; l < levels.size() && begin % (block << l) == 0; ++l) {
      const std::int64_t index = begin / (block << l);
      if (index < levels[l].first || index >= levels[l].end()) break;
      found = &levels[l].sums[static_cast<std::size_t>(index - levels[l].first)];
    }
    return found;
  }

  Moments moments(std::int64_t first_row) const {
    Moments all(width);
    std::int64_t begin = std::min((first_row + block - 1) / block * block, appended);
    if (begin > first_row) all.merge(Moments(range(first_row, begin)));
    while (const Moments* part = longest_sum(begin)) {
      all.merge(*part);
      begin += static_cast<std::int64_t>(part->count);
    }
    if (appended > begin) all.merge(Moments(range(begin, appended)));
    return all;
  }

  const Pairs& kernel(const KlConfig& config, Eigen::Index rows, Eigen::Index count) const {
    constexpr std::size_t max_cached = 8;
    if (cached_for.kernel != config.kernel || cached_for.tau != config.tau) cached_kernels.clear();
    cached_for = config;
    for (const Pairs& known : cached_kernels) {
      if (known.vectors.rows() == rows && known.vectors.cols() == count) return known;
    }
    if (cached_kernels.size() == max_cached) cached_kernels.pop_front();
    return cached_kernels.emplace_back(kernel_pairs(config, rows, count));
  }
};

KlHistory::KlHistory(int width, int capacity) : state_(std::make_unique<State>(width, capacity)) {}
KlHistory::~KlHistory() = default;
int KlHistory::rows() const { return static_cast<int>(state_->rows()); }
int KlHistory::width() const { return state_->width; }
int KlHistory::capacity() const { return state_->capacity; }
std::int64_t KlHistory::appended() const { return state_->appended; }
void KlHistory::append(std::span<const double> row) { state_->append(row); }

void KlHistory::assign(std::span<const double> rows, std::int64_t appended) {
  const auto count = static_cast<std::int64_t>(rows.size()) / state_->width;
  for (std::int64_t i = 0; i < count; ++i)
    state_->ring.row((appended - count + i) % state_->capacity) =
        Eigen::Map<const Eigen::RowVectorXd>(rows.data() + i * state_->width, state_->width);
  state_->appended = appended;
  state_->rebuild_sums();
}

std::vector<double> KlHistory::values(int last) const {
  const RowMajor rows = state_->range(state_->begin_of(last), state_->appended);
  return {rows.data(), rows.data() + rows.size()};
}

KlDecomposition KlHistory::decompose(const KlConfig& config, int last) const {
  const std::int64_t begin = state_->begin_of(last);
  const Eigen::Index count_rows = appended() - begin, count = std::min<Eigen::Index>(config.components, count_rows);
  if (count_rows == 0) return {};
  const Moments moments = state_->moments(begin);
  if (!moments.second.allFinite()) return {};
  const double variance = moments.second.trace() / static_cast<double>(count_rows);
  if (config.strategy == KlStrategy::empirical && count_rows > width()) {
    const RowMajor covariance = moments.second / static_cast<double>(count_rows);
    const auto project = [&](const Eigen::MatrixXd& vectors) { return state_->project(begin, vectors, moments.mean); };
    return finished(config, variance, modes_over_features(covariance, count_rows, count, project));
  }
  RowMajor centred = state_->range(begin, state_->appended);
  centred.rowwise() -= moments.mean.transpose();
  if (config.strategy == KlStrategy::empirical) return finished(config, variance, modes_over_time(centred, count));
  return finished(config, variance, modes_of(state_->kernel(config, count_rows, count), centred));
}

KlDecomposition KlHistory::components(const KlConfig& config, int last) const {
  const std::int64_t begin = state_->begin_of(last);
  const Eigen::Index count_rows = appended() - begin, count = std::min<Eigen::Index>(config.components, count_rows);
  if (config.strategy == KlStrategy::kernel || count_rows <= width()) {
    KlDecomposition whole = decompose(config, last);
    whole.modes.clear();
    return whole;
  }
  const Moments moments = state_->moments(begin);
  if (!moments.second.allFinite()) return {};
  const RowMajor covariance = moments.second / static_cast<double>(count_rows);
  const Pairs features = max_pairs(covariance, std::min<Eigen::Index>(count, width()));
  if (features.values.size() == 0) return {};
  std::vector<bool> wrong = state_->wrong_signs(begin, features.vectors, moments.mean);
  wrong.resize(static_cast<std::size_t>(count), false);
  return finished(config, covariance.trace(), count_rows, coefficients_over_features(features, count_rows, count),
                  wrong);
}

}  // namespace afterglow
