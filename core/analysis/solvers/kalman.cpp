// Filters token by token: states of a head are small.
#include "core/analysis/solvers/kalman.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

#include "core/analysis/linear_algebra/decompositions.h"
#include "core/analysis/solvers/solver_steps.h"

namespace afterglow {
namespace {

using Column = Eigen::VectorXd;

Column row_of(const std::vector<double>& rows, int tokens, int t) {
  return RowMajorView(rows.data(), tokens, static_cast<Eigen::Index>(rows.size()) / tokens).row(t);
}
Column key(const PairSequence& pairs, int t) { return row_of(pairs.keys, pairs.tokens, t); }
Column value(const PairSequence& pairs, int t) { return row_of(pairs.values, pairs.tokens, t); }
double noise(const PairSequence& pairs, int t) { return pairs.noise[static_cast<std::size_t>(t)]; }
RowMajor no_state(const PairSequence& pairs) { return RowMajor::Zero(pairs.key_width(), pairs.value_width()); }
RowMajor no_keys(const PairSequence& pairs) { return RowMajor::Zero(pairs.key_width(), pairs.key_width()); }

/// e^g of every channel at a token; where `of_head` all have their geometric mean.
Column decays(const PairSequence& pairs, int t, bool of_head) {
  const Eigen::Index channels = pairs.key_width();
  if (pairs.log_decay.empty()) return Column::Ones(channels);
  const Column logs = row_of(pairs.log_decay, pairs.tokens, t);
  if (!of_head && logs.size() == channels) return logs.array().exp();
  return Column::Constant(channels, std::exp(logs.mean()));
}

/// H_t = e^g H_{t-1} + k k^T / r_t.
void add_key(RowMajor& H, const Column& k, double decay, double r) { H = decay * H + k * k.transpose() / r; }

/// λ of Σ_0 = I/λ: what the ridge is after the last token where nothing fades.
double prior_ridge(const PairSequence& pairs) {
  if (pairs.ridge > 0) return pairs.ridge;
  RowMajor H = no_keys(pairs);
  for (int t = 0; t < pairs.tokens; ++t) add_key(H, key(pairs, t), 1.0, noise(pairs, t));
  return pairs.strength * H.norm();
}

/// (H + λI)^-1 B in float64; NaN where it cannot be factorised.
RowMajor ridge_solution(RowMajor H, const RowMajor& B, double ridge) {
  H.diagonal().array() += ridge;
  const Eigen::LLT<RowMajor> factors(H);
  if (factors.info() != Eigen::Success) return RowMajor::Constant(B.rows(), B.cols(), std::nan(""));
  return factors.solve(B);
}

/// Σ_t of the exact filters (eqs. 13 and 14), of which the state that stands still is the case without decay and noise.
class Covariance {
 public:
  Covariance(bool fades, double process_noise, const PairSequence& pairs)
      : fades_(fades), process_noise_(process_noise), cells_(no_keys(pairs)) {
    cells_.diagonal().setConstant(1 / prior_ridge(pairs));
  }
  const RowMajor& cells() const { return cells_; }

  /// From Σ_{t-1} to Σ_t; returns G_t.
  Column advance(const PairSequence& pairs, int t) {
    const Column k = key(pairs, t);
    if (fades_) {
      const Column A = decays(pairs, t, false);
      cells_ = A.asDiagonal() * cells_ * A.asDiagonal();
    }
    cells_.diagonal().array() += process_noise_;
    const Column read = cells_ * k;
    const double total = read.dot(k) + noise(pairs, t);
    cells_ -= read * read.transpose() / total;
    return read / total;
  }

 private:
  bool fades_;
  double process_noise_;
  RowMajor cells_;
};

/// G_t of the filters that keep Σ_t = I: A² + I of every channel in the place of A Σ A + Q, and I where nothing fades.
Column fixed_gain(const PairSequence& pairs, int t, const Column& A, bool fades) {
  const Column k = key(pairs, t);
  const Column gain = fades ? Column((A.array().square() + 1) * k.array()) : k;
  return gain / (gain.dot(k) + noise(pairs, t));
}

Column missing(const RowMajor& S, const PairSequence& pairs, int t) {
  return value(pairs, t) - S.transpose() * key(pairs, t);
}

void note_gain(FilterRun& run, const Column& gain, const Column& k) {
  run.written.push_back(gain.dot(k));
  run.alignment.push_back(gain.dot(k) / (gain.norm() * k.norm()));
}

void note_state(FilterRun& run, const RowMajor& S, const PairSequence& pairs) {
  for (int t = 0; t < pairs.tokens; ++t) run.recall.push_back(missing(S, pairs, t).norm() / value(pairs, t).norm());
  run.state = stored(S);
}

/// Filters that update a state by G_t times the innovation (eq. 12); without `covariance` they hold Σ_t = I.
RowMajor run_recursion(FilterRun& run, const PairSequence& pairs, bool fades, Covariance* covariance) {
  RowMajor S = no_state(pairs);
  for (int t = 0; t < pairs.tokens; ++t) {
    const Column A = decays(pairs, t, run.kind == FilterKind::gated_deltanet);
    if (fades) S = A.asDiagonal() * S;
    const Column gain = covariance ? covariance->advance(pairs, t) : fixed_gain(pairs, t, A, fades);
    note_gain(run, gain, key(pairs, t));
    S += gain * missing(S, pairs, t).transpose();
  }
  return S;
}

/// Gated KalmaNet keeps H and U, whose decay weighs pairs by their age, and solves anew at each token (section 4.1).
RowMajor run_gated(FilterRun& run, const PairSequence& pairs) {
  RowMajor H = no_keys(pairs), U = no_state(pairs);
  double ridge = pairs.ridge > 0 ? pairs.ridge : 1;
  for (int t = 0; t < pairs.tokens; ++t) {
    const double decay = decays(pairs, t, true)[0];
    const Column k = key(pairs, t);
    add_key(H, k, decay, noise(pairs, t));
    U = decay * U + k * value(pairs, t).transpose() / noise(pairs, t);
    if (!(pairs.ridge > 0)) ridge = pairs.strength * H.norm();
    note_gain(run, ridge_solution(H, k, ridge) / noise(pairs, t), k);
  }
  return ridge_solution(H, U, ridge);
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
  void write(const Column& k, double r) {
    const std::vector<Number> read = times(k);
    Number total = static_cast<Number>(r);
    for (std::size_t i = 0; i < n_; ++i) total += operand(static_cast<Number>(k[i])) * operand(read[i]);
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j < n_; ++j) cells_[i * n_ + j] -= operand(read[i]) * operand(read[j]) / total;
    }
  }
  std::vector<Number> times(const Column& x) const {
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
double distance(const std::vector<Number>& x, const Column& exact) {
  if (x.empty()) return std::nan("");
  const Eigen::Map<const Eigen::Matrix<Number, Eigen::Dynamic, 1>> found(x.data(), exact.size());
  return (found.template cast<double>() - exact).norm() / exact.norm();
}

template <class Number>
DriftRun drift_in(const PairSequence& pairs, Arithmetic arithmetic, double weakness, int most_tokens) {
  DriftRun run;
  run.arithmetic = arithmetic;
  run.ridge = prior_ridge(pairs) * weakness;
  run.tokens = spread(pairs.tokens, most_tokens);
  const auto keys = static_cast<std::size_t>(pairs.key_width());
  Recursion<Number> recursion(pairs.key_width(), run.ridge, arithmetic);
  RowMajor H = no_keys(pairs);
  std::vector<Number> sums(keys * keys, Number(0));
  for (int t = 0; t < pairs.tokens; ++t) {
    const Column k = key(pairs, t);
    recursion.write(k, noise(pairs, t));
    add_key(H, k, 1.0, noise(pairs, t));
    const auto operand = [&](std::size_t i) { return rounded(static_cast<Number>(k[i]), arithmetic); };
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] += operand(i / keys) * operand(i % keys) / static_cast<Number>(noise(pairs, t));
    if (!std::ranges::binary_search(run.tokens, t)) continue;
    const Column q = row_of(pairs.queries, pairs.tokens, t), exact = ridge_solution(H, q, run.ridge);
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
  const bool fades = kind != FilterKind::deltanet;
  note_state(run, kind == FilterKind::gka ? run_gated(run, pairs) : run_recursion(run, pairs, fades, nullptr), pairs);
  return run;
}

FilterRun run_exact_filter(bool fades, double process_noise, const PairSequence& pairs) {
  FilterRun run;
  run.kind = fades ? FilterKind::fading_kalman : FilterKind::kalman;
  if (!is_sound(pairs)) return run;
  Covariance covariance(fades, process_noise, pairs);
  note_state(run, run_recursion(run, pairs, fades, &covariance), pairs);
  return run;
}

double finite_mean(std::span<const double> values) {
  double sum = 0, count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    sum += value;
    ++count;
  }
  return sum / count;
}

NoiseSweep sweep_process_noise(bool fades, std::span<const double> noise, const PairSequence& pairs) {
  NoiseSweep sweep{fades, {noise.begin(), noise.end()}, {}, {}};
  for (const double q : noise) {
    const std::vector<double> recall = run_exact_filter(fades, q, pairs).recall;
    sweep.all.push_back(finite_mean(recall));
    sweep.last.push_back(finite_mean(std::span(recall).last((recall.size() + 7) / 8)));
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
    const Column values = symmetric_eigenvalues(covariance.cells());
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
