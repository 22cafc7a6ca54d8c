// Filters token by token, in plain loops: states of a head are small.
#include "core/analysis/solvers/kalman.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/analysis/linear_algebra/decompositions.h"
#include "core/analysis/solvers/solver_steps.h"

namespace afterglow {

namespace {

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double length_of(std::span<const double> a) { return std::sqrt(dot(a, a)); }

bool all_finite(std::span<const double> values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

std::span<const double> row_of(const std::vector<double>& rows, int tokens, int t) {
  const std::size_t width = rows.size() / static_cast<std::size_t>(tokens);
  return std::span(rows).subspan(static_cast<std::size_t>(t) * width, width);
}

std::span<const double> key(const PairSequence& pairs, int t) { return row_of(pairs.keys, pairs.tokens, t); }
std::span<const double> value(const PairSequence& pairs, int t) { return row_of(pairs.values, pairs.tokens, t); }

/// e^g of every channel at a token; where `of_head` all have their geometric mean.
std::vector<double> decays(const PairSequence& pairs, int t, bool of_head) {
  const auto channels = static_cast<std::size_t>(pairs.key_width());
  if (pairs.log_decay.empty()) return std::vector<double>(channels, 1.0);
  const std::span<const double> logs = row_of(pairs.log_decay, pairs.tokens, t);
  double mean = 0;
  for (const double g : logs) mean += g / static_cast<double>(logs.size());
  std::vector<double> all(channels, std::exp(mean));
  for (std::size_t i = 0; !of_head && logs.size() == channels && i < channels; ++i) all[i] = std::exp(logs[i]);
  return all;
}

/// H_t = e^g H_{t-1} + k k^T / r_t.
void add_key(std::vector<double>& H, std::span<const double> k, double decay, double noise) {
  const std::size_t n = k.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) H[i * n + j] = decay * H[i * n + j] + k[i] * k[j] / noise;
  }
}

/// λ of Σ_0 = I/λ: what the ridge is after the last token where nothing fades.
double prior_ridge(const PairSequence& pairs) {
  if (pairs.ridge > 0) return pairs.ridge;
  std::vector<double> H(pairs.keys.size() / static_cast<std::size_t>(pairs.tokens) *
                        static_cast<std::size_t>(pairs.key_width()));
  for (int t = 0; t < pairs.tokens; ++t) add_key(H, key(pairs, t), 1.0, pairs.noise[static_cast<std::size_t>(t)]);
  return pairs.strength * frobenius_norm(H);
}

/// (H + λI)^-1 q in float64; empty when it cannot be factorised.
std::vector<double> ridge_solution(const std::vector<double>& H, std::span<const double> q, double ridge) {
  const RidgeProblem problem = bounded_problem(H, {q.begin(), q.end()}, ridge);
  return steps::cholesky(steps::Matrix<double>(problem, Arithmetic::fp64), problem.q);
}

/// Σ_t of the exact filters (eqs. 13 and 14), of which the state that stands still is the case without decay and noise.
class Covariance {
 public:
  Covariance(bool fades, double process_noise, const PairSequence& pairs)
      : fades_(fades), process_noise_(process_noise), n_(static_cast<std::size_t>(pairs.key_width())), cells_(n_ * n_) {
    for (std::size_t i = 0; i < n_; ++i) cells_[i * n_ + i] = 1 / prior_ridge(pairs);
  }
  const std::vector<double>& cells() const { return cells_; }

  /// From Σ_{t-1} to Σ_t; returns G_t.
  std::vector<double> advance(const PairSequence& pairs, int t) {
    const std::span<const double> k = key(pairs, t);
    if (fades_ || process_noise_ > 0) predict(fades_ ? decays(pairs, t, false) : std::vector<double>(n_, 1.0));
    std::vector<double> gain(n_, 0.0);  // P k, then G
    for (std::size_t i = 0; i < n_; ++i) gain[i] = dot(std::span(cells_).subspan(i * n_, n_), k);
    const std::vector<double> read = gain;
    const double total = dot(read, k) + pairs.noise[static_cast<std::size_t>(t)];
    for (double& g : gain) g /= total;
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j < n_; ++j) cells_[i * n_ + j] -= read[i] * read[j] / total;
    }
    return gain;
  }

 private:
  void predict(const std::vector<double>& A) {
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j < n_; ++j)
        cells_[i * n_ + j] = A[i] * cells_[i * n_ + j] * A[j] + (i == j ? process_noise_ : 0.0);
    }
  }
  bool fades_;
  double process_noise_;
  std::size_t n_;
  std::vector<double> cells_;
};

/// G_t of the filters that keep Σ_t = I: A² + I of every channel in the place of A Σ A + Q, and I where nothing fades.
std::vector<double> fixed_gain(const PairSequence& pairs, int t, const std::vector<double>& A, bool fades) {
  const std::span<const double> k = key(pairs, t);
  std::vector<double> gain(k.size());
  for (std::size_t i = 0; i < k.size(); ++i) gain[i] = (fades ? A[i] * A[i] + 1 : 1) * k[i];
  const double total = dot(gain, k) + pairs.noise[static_cast<std::size_t>(t)];
  for (double& g : gain) g /= total;
  return gain;
}

/// S^T k.
std::vector<double> read_state(const std::vector<double>& S, std::span<const double> k) {
  const std::size_t width = S.size() / k.size();
  std::vector<double> read(width, 0.0);
  for (std::size_t i = 0; i < k.size(); ++i) {
    for (std::size_t p = 0; p < width; ++p) read[p] += k[i] * S[i * width + p];
  }
  return read;
}

std::vector<double> missing(const std::vector<double>& S, const PairSequence& pairs, int t) {
  std::vector<double> rest = read_state(S, key(pairs, t));
  const std::span<const double> v = value(pairs, t);
  for (std::size_t p = 0; p < rest.size(); ++p) rest[p] = v[p] - rest[p];
  return rest;
}

void note_gain(FilterRun& run, std::span<const double> gain, std::span<const double> k) {
  run.written.push_back(dot(gain, k));
  run.alignment.push_back(dot(gain, k) / (length_of(gain) * length_of(k)));
}

void note_recall(FilterRun& run, const PairSequence& pairs) {
  for (int t = 0; t < pairs.tokens; ++t)
    run.recall.push_back(length_of(missing(run.state, pairs, t)) / length_of(value(pairs, t)));
}

/// Filters that update a state by G_t times the innovation (eq. 12); without `covariance` they hold Σ_t = I.
void run_recursion(FilterRun& run, const PairSequence& pairs, bool fades, Covariance* covariance) {
  const auto width = static_cast<std::size_t>(pairs.value_width());
  for (int t = 0; t < pairs.tokens; ++t) {
    const std::vector<double> A = decays(pairs, t, run.kind == FilterKind::gated_deltanet);
    for (std::size_t i = 0; fades && i < run.state.size(); ++i) run.state[i] *= A[i / width];
    const std::vector<double> gain = covariance ? covariance->advance(pairs, t) : fixed_gain(pairs, t, A, fades);
    const std::vector<double> innovation = missing(run.state, pairs, t);
    note_gain(run, gain, key(pairs, t));
    for (std::size_t i = 0; i < run.state.size(); ++i) run.state[i] += gain[i / width] * innovation[i % width];
  }
}

/// S = (H + λI)^-1 U^T column by column.
std::vector<double> solved_state(const std::vector<double>& H, const std::vector<double>& U, double ridge,
                                 std::size_t keys) {
  const std::size_t width = U.size() / keys;
  std::vector<double> S(U.size(), 0.0);
  for (std::size_t p = 0; p < width; ++p) {
    std::vector<double> column(keys);
    for (std::size_t i = 0; i < keys; ++i) column[i] = U[i * width + p];
    column = ridge_solution(H, column, ridge);
    for (std::size_t i = 0; i < column.size(); ++i) S[i * width + p] = column[i];
  }
  return S;
}

/// Gated KalmaNet keeps H and U, whose decay weighs pairs by their age, and solves anew at each token (section 4.1).
void run_gated(FilterRun& run, const PairSequence& pairs) {
  const auto keys = static_cast<std::size_t>(pairs.key_width()), width = static_cast<std::size_t>(pairs.value_width());
  std::vector<double> H(keys * keys, 0.0), U(keys * width, 0.0);
  double ridge = pairs.ridge > 0 ? pairs.ridge : 1;
  for (int t = 0; t < pairs.tokens; ++t) {
    const double noise = pairs.noise[static_cast<std::size_t>(t)], decay = decays(pairs, t, true).front();
    const std::span<const double> k = key(pairs, t), v = value(pairs, t);
    add_key(H, k, decay, noise);
    for (std::size_t i = 0; i < U.size(); ++i) U[i] = decay * U[i] + k[i / width] * v[i % width] / noise;
    if (!(pairs.ridge > 0)) ridge = pairs.strength * frobenius_norm(H);
    std::vector<double> gain = ridge_solution(H, k, ridge);
    for (double& g : gain) g /= noise;
    note_gain(run, gain, k);
  }
  run.state = solved_state(H, U, ridge, keys);
}

std::vector<int> spread(int tokens, int most) {
  std::vector<int> chosen;
  const int count = std::clamp(most, 1, tokens);
  for (int i = 0; i < count; ++i) chosen.push_back(count == 1 ? tokens - 1 : i * (tokens - 1) / (count - 1));
  return chosen;
}

/// Φ of (KF): operands of products are rounded, Φ itself and sums are not.
template <class Number>
class Recursion {
 public:
  Recursion(int keys, double ridge, Arithmetic arithmetic)
      : n_(static_cast<std::size_t>(keys)), arithmetic_(arithmetic), cells_(n_ * n_, Number(0)) {
    for (std::size_t i = 0; i < n_; ++i) cells_[i * n_ + i] = static_cast<Number>(1 / ridge);
  }
  void write(std::span<const double> k, double noise) {
    const std::vector<Number> read = times(k);
    Number total = static_cast<Number>(noise);
    for (std::size_t i = 0; i < n_; ++i) total += operand(static_cast<Number>(k[i])) * operand(read[i]);
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j < n_; ++j) cells_[i * n_ + j] -= operand(read[i]) * operand(read[j]) / total;
    }
  }
  std::vector<Number> times(std::span<const double> x) const {
    std::vector<Number> y(n_, Number(0));
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j < n_; ++j) y[i] += operand(cells_[i * n_ + j]) * operand(static_cast<Number>(x[j]));
    }
    return y;
  }

 private:
  Number operand(Number x) const { return rounded(x, arithmetic_); }
  std::size_t n_;
  Arithmetic arithmetic_;
  std::vector<Number> cells_;
};

template <class Number>
double distance(const std::vector<Number>& x, const std::vector<double>& exact) {
  if (x.size() != exact.size()) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += std::pow(static_cast<double>(x[i]) - exact[i], 2);
  return std::sqrt(sum) / length_of(exact);
}

template <class Number>
DriftRun drift_in(const PairSequence& pairs, Arithmetic arithmetic, double weakness, int most_tokens) {
  DriftRun run;
  run.arithmetic = arithmetic;
  run.ridge = prior_ridge(pairs) * weakness;
  run.tokens = spread(pairs.tokens, most_tokens);
  const auto keys = static_cast<std::size_t>(pairs.key_width());
  Recursion<Number> recursion(pairs.key_width(), run.ridge, arithmetic);
  std::vector<double> H(keys * keys, 0.0);
  std::vector<Number> sums(H.size(), Number(0));
  for (int t = 0; t < pairs.tokens; ++t) {
    const std::span<const double> k = key(pairs, t);
    const double noise = pairs.noise[static_cast<std::size_t>(t)];
    recursion.write(k, noise);
    add_key(H, k, 1.0, noise);
    const auto operand = [&](std::size_t i) { return rounded(static_cast<Number>(k[i]), arithmetic); };
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] += operand(i / keys) * operand(i % keys) / static_cast<Number>(noise);
    if (!std::ranges::binary_search(run.tokens, t)) continue;
    const std::span<const double> q = row_of(pairs.queries, pairs.tokens, t);
    const std::vector<double> exact = ridge_solution(H, q, run.ridge);
    run.recursion.push_back(distance(recursion.times(q), exact));
    const RidgeProblem problem = bounded_problem({sums.begin(), sums.end()}, {q.begin(), q.end()}, run.ridge);
    const steps::Matrix<Number> matrix(problem, arithmetic);
    run.solve.push_back(distance(steps::cholesky(matrix, steps::converted<Number>(problem.q)), exact));
  }
  return run;
}

}  // namespace

std::string_view name_of(FilterKind kind) {
  constexpr std::array<std::string_view, all_filters.size()> names{"Kalman",   "Kalman, fading", "Gated KalmaNet",
                                                                   "DeltaNet", "gated DeltaNet", "KDA"};
  return names[static_cast<std::size_t>(kind)];
}

bool is_sound(const PairSequence& pairs) {
  const auto tokens = static_cast<std::size_t>(std::max(0, pairs.tokens));
  if (tokens == 0 || pairs.keys.empty() || pairs.values.empty()) return false;
  const bool fits = pairs.keys.size() % tokens == 0 && pairs.values.size() % tokens == 0 &&
                    pairs.queries.size() == pairs.keys.size() && pairs.noise.size() == tokens;
  const bool decays_fit =
      pairs.log_decay.empty() || pairs.log_decay.size() == tokens || pairs.log_decay.size() == pairs.keys.size();
  if (!fits || !decays_fit) return false;
  const bool is_positive = std::ranges::all_of(pairs.noise, [](double r) { return r > 0; });
  return is_positive && all_finite(pairs.keys) && all_finite(pairs.values) && all_finite(pairs.queries) &&
         all_finite(pairs.noise) && all_finite(pairs.log_decay) && (pairs.ridge > 0 || prior_ridge(pairs) > 0);
}

FilterRun run_filter(FilterKind kind, const PairSequence& pairs) {
  if (kind == FilterKind::kalman) return run_exact_filter(false, 0, pairs);
  if (kind == FilterKind::fading_kalman) return run_exact_filter(true, 1, pairs);
  FilterRun run;
  run.kind = kind;
  if (!is_sound(pairs)) return run;
  run.state.assign(static_cast<std::size_t>(pairs.key_width() * pairs.value_width()), 0.0);
  if (kind == FilterKind::gka) {
    run_gated(run, pairs);
  } else {
    run_recursion(run, pairs, kind != FilterKind::deltanet, nullptr);
  }
  note_recall(run, pairs);
  return run;
}

FilterRun run_exact_filter(bool fades, double process_noise, const PairSequence& pairs) {
  FilterRun run;
  run.kind = fades ? FilterKind::fading_kalman : FilterKind::kalman;
  if (!is_sound(pairs)) return run;
  run.state.assign(static_cast<std::size_t>(pairs.key_width() * pairs.value_width()), 0.0);
  Covariance covariance(fades, process_noise, pairs);
  run_recursion(run, pairs, fades, &covariance);
  note_recall(run, pairs);
  return run;
}

NoiseSweep sweep_process_noise(bool fades, std::span<const double> noise, const PairSequence& pairs) {
  NoiseSweep sweep{fades, {noise.begin(), noise.end()}, {}, {}};
  for (const double q : noise) {
    const std::vector<double> recall = run_exact_filter(fades, q, pairs).recall;
    const auto mean_from = [&](std::size_t first) {
      double sum = 0;
      int count = 0;
      for (const double error : std::span(recall).subspan(first)) {
        if (!std::isfinite(error)) continue;  // a value of length 0
        sum += error;
        ++count;
      }
      return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
    };
    sweep.all.push_back(mean_from(0));
    sweep.last.push_back(mean_from(recall.size() - (recall.size() + 7) / 8));
  }
  return sweep;
}

Uncertainty uncertainty(FilterKind kind, const PairSequence& pairs, int most_tokens) {
  Uncertainty found;
  if (!is_sound(pairs)) return found;
  found.tokens = spread(pairs.tokens, most_tokens);
  const bool fades = kind == FilterKind::fading_kalman;
  Covariance covariance(fades, fades ? 1.0 : 0.0, pairs);
  const int n = pairs.key_width();
  for (int t = 0; t < pairs.tokens; ++t) {
    covariance.advance(pairs, t);
    if (!std::ranges::binary_search(found.tokens, t)) continue;
    const Eigen::VectorXd values =
        symmetric_eigenvalues(Eigen::Map<const Eigen::MatrixXd>(covariance.cells().data(), n, n));
    if (values.size() == 0) return {};
    found.mean.push_back(values.mean());
    found.smallest.push_back(values(0));
    found.largest.push_back(values(n - 1));
  }
  return found;
}

DriftRun drift(const PairSequence& pairs, Arithmetic arithmetic, double weakness, int most_tokens) {
  if (!is_sound(pairs)) return {};
  return arithmetic == Arithmetic::fp64 ? drift_in<double>(pairs, arithmetic, weakness, most_tokens)
                                        : drift_in<float>(pairs, arithmetic, weakness, most_tokens);
}

}  // namespace afterglow
