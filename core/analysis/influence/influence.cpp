// Spread lags, hops, closed forms and the norm of a sketched matrix.
#include "core/analysis/influence/influence.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/analysis/linear_algebra/spectrum.h"

namespace afterglow {
namespace {

bool is_square(std::span<const double> w, int tokens) {
  return tokens > 0 && w.size() == static_cast<std::size_t>(tokens) * static_cast<std::size_t>(tokens);
}

std::size_t at(int tokens, int row, int column) {
  return static_cast<std::size_t>(row) * static_cast<std::size_t>(tokens) + static_cast<std::size_t>(column);
}

/// B x of a strictly lower triangular B.
std::vector<double> lower_product(std::span<const double> B, int tokens, const std::vector<double>& x) {
  std::vector<double> y(x.size(), 0.0);
  for (int t = 1; t < tokens; ++t) {
    double sum = 0;
    for (int j = 0; j < t; ++j) sum += B[at(tokens, t, j)] * x[static_cast<std::size_t>(j)];
    y[static_cast<std::size_t>(t)] = sum;
  }
  return y;
}

/// x of (I - B) x = f by forward substitution, in place.
void solve_feedback(std::span<const double> B, int tokens, std::vector<double>& x) {
  for (int t = 1; t < tokens; ++t) {
    for (int j = 0; j < t; ++j) x[static_cast<std::size_t>(t)] += B[at(tokens, t, j)] * x[static_cast<std::size_t>(j)];
  }
}

}  // namespace

std::vector<int> spread_lags(int last, int per_decade) {
  std::vector<int> lags;
  const double step = std::pow(10.0, 1.0 / std::max(1, per_decade));
  double wanted = 1;
  while (wanted <= last) {
    const int lag = static_cast<int>(std::lround(wanted));
    if (lags.empty() || lag > lags.back()) lags.push_back(lag);
    wanted = std::max(wanted * step, lag + 0.5);
  }
  if (last >= 1 && (lags.empty() || lags.back() < last)) lags.push_back(last);
  return lags;
}

InfluenceProfile spread_profile(const InfluenceProfile& profile, int per_decade) {
  InfluenceProfile spread;
  const int last = profile.lags.empty() ? 0 : static_cast<int>(profile.lags.back());
  std::size_t i = 0;
  for (const int lag : spread_lags(last, per_decade)) {
    while (i < profile.lags.size() && profile.lags[i] < lag) ++i;
    if (i == profile.lags.size()) break;
    if (!spread.lags.empty() && profile.lags[i] == spread.lags.back()) continue;
    spread.lags.push_back(profile.lags[i]);
    spread.values.push_back(profile.values[i]);
  }
  return spread;
}

double lag_of_share(const InfluenceProfile& profile, double share) {
  std::size_t first = 0;
  while (first < profile.lags.size() && profile.lags[first] < 1) ++first;
  if (first == profile.lags.size() || !(profile.values[first] > 0)) return std::numeric_limits<double>::quiet_NaN();
  const double limit = share * profile.values[first];
  std::size_t above = profile.lags.size();  // the last point above the limit
  for (std::size_t i = first; i < profile.lags.size(); ++i) {
    if (profile.values[i] > limit) above = i;
  }
  if (above == profile.lags.size()) return profile.lags[first];
  if (above + 1 == profile.lags.size()) return INFINITY;
  const double x0 = std::log(profile.lags[above]), x1 = std::log(profile.lags[above + 1]);
  const double y0 = std::log(profile.values[above]);
  const double y1 = std::log(std::max(profile.values[above + 1], std::numeric_limits<double>::min()));
  return std::exp(x0 + (x1 - x0) * (std::log(limit) - y0) / (y1 - y0));
}

std::vector<double> resolvent(std::span<const double> B, int tokens) {
  if (!is_square(B, tokens)) return {};
  std::vector<double> R(B.size(), 0.0);
  for (int t = 0; t < tokens; ++t) {
    double* row = R.data() + at(tokens, t, 0);
    for (int j = 0; j < t; ++j) {
      const double b = B[at(tokens, t, j)];
      const double* earlier = R.data() + at(tokens, j, 0);
      for (int tau = 0; tau <= j; ++tau) row[tau] += b * earlier[tau];
    }
    row[t] = 1;
  }
  return R;
}

std::vector<double> hop_profiles(std::span<const double> B, int tokens, int source, int max_hops) {
  if (!is_square(B, tokens) || source < 0 || source >= tokens || max_hops < 0) return {};
  std::vector<double> all, x(static_cast<std::size_t>(tokens), 0.0);
  x[static_cast<std::size_t>(source)] = 1;
  for (int hop = 0; hop <= max_hops; ++hop) {
    all.insert(all.end(), x.begin(), x.end());
    if (hop < max_hops) x = lower_product(B, tokens, x);
  }
  return all;
}

std::vector<double> hop_masses(std::span<const double> B, int tokens, int token, int max_hops) {
  if (!is_square(B, tokens) || token < 0 || token >= tokens || max_hops < 0) return {};
  std::vector<double> masses, x(static_cast<std::size_t>(tokens), 1.0);
  for (int hop = 0; hop <= max_hops; ++hop) {
    masses.push_back(x[static_cast<std::size_t>(token)]);
    if (hop < max_hops) x = lower_product(B, tokens, x);
  }
  return masses;
}

std::vector<double> position_code(std::span<const double> B, int tokens) {
  if (!is_square(B, tokens)) return {};
  std::vector<double> s(static_cast<std::size_t>(tokens), 1.0);
  solve_feedback(B, tokens, s);
  return s;
}

RoutingSpread routing_spread(std::span<const double> alpha, int tokens, bool strict) {
  RoutingSpread spread;
  if (!is_square(alpha, tokens)) return spread;
  for (int t = 0; t < tokens; ++t) {
    const int visible = strict ? t : t + 1;
    double most = 0, least = INFINITY, entropy = 0;
    for (int j = 0; j < visible; ++j) {
      const double a = alpha[at(tokens, t, j)];
      most = std::max(most, a);
      least = std::min(least, a);
      if (a > 0) entropy -= a * std::log(a);
    }
    spread.logit_spread.push_back(visible < 2 ? 0.0 : std::log(most / least));
    spread.effective.push_back(visible < 1 ? 0.0 : std::exp(entropy));
    spread.c2 = std::max(spread.c2, most * visible);
  }
  return spread;
}

double uniform_routing_influence(double gamma, double tau, double lag) {
  if (lag == 0) return 1;
  return gamma * std::exp(std::lgamma(tau + 1) - std::lgamma(tau + 1 + gamma) + std::lgamma(tau + lag + gamma) -
                          std::lgamma(tau + lag + 1));
}

double uniform_position_code(double gamma, double token) {
  if (gamma == 0 || token == 0) return 1;
  // 1 / Gamma(gamma) = gamma / Gamma(1 + gamma) has the sign of gamma.
  const double rest = gamma * std::exp(std::lgamma(token + gamma) - std::lgamma(1 + gamma) - std::lgamma(token + 1));
  return 1 + gamma / (1 - gamma) * (1 - rest);
}

double envelope_exponent(double gamma_max, double c2) { return 1 - gamma_max * c2; }

double envelope_constant(double beta) { return (1 - beta) * std::exp(1 - beta); }

double deep_exponent(int blocks, double beta) { return blocks * (1 - beta) - 1; }

/// The profile of a stack; `block(x)` turns the influence x [tokens] on the input of a block into that on its output.
template <class Block>
InfluenceProfile stack_profile(int blocks, int source, int tokens, const Block& block) {
  InfluenceProfile profile;
  if (blocks < 0 || source < 0 || source >= tokens) return profile;
  std::vector<double> x(static_cast<std::size_t>(tokens), 0.0);
  x[static_cast<std::size_t>(source)] = 1;
  for (int i = 0; i < blocks; ++i) block(x);
  for (int t = source; t < tokens; ++t) {
    profile.lags.push_back(t - source);
    profile.values.push_back(x[static_cast<std::size_t>(t)]);
  }
  return profile;
}

InfluenceProfile uniform_stack_profile(int blocks, double gamma, int source, int tokens) {
  return stack_profile(blocks, source, tokens, [&](std::vector<double>& x) {
    double past = 0;  // sum of s before this token; uniform routing reads its mean
    for (int t = 0; t < tokens; ++t) {
      double& here = x[static_cast<std::size_t>(t)];
      const double jump = t > 0 ? gamma * past / t : 0.0;
      past += std::pow(t + 1.0, gamma) * here + jump;
      here = jump;
    }
  });
}

InfluenceProfile averaged_stack_profile(int blocks, double gamma, int source, int tokens) {
  return stack_profile(blocks, source, tokens, [&](std::vector<double>& x) {
    double past = 0, prefix = 0;  // sums of s before this token, of p x up to it
    for (int t = 0; t < tokens; ++t) {
      double& here = x[static_cast<std::size_t>(t)];
      prefix += std::pow(t + 1.0, gamma) * here;
      const double s = prefix / (t + 1) + (t > 0 ? gamma * past / t : 0.0);
      past += s;
      here += s;
    }
  });
}

std::vector<double> at_every_lag(const InfluenceProfile& profile, double own, int last) {
  std::vector<double> values{own};
  std::size_t i = 0;
  for (int lag = 1; lag <= last && !profile.lags.empty(); ++lag) {
    while (i + 1 < profile.lags.size() && profile.lags[i + 1] <= lag) ++i;
    const bool is_between = i + 1 < profile.lags.size() && profile.lags[i] <= lag;
    const double from = profile.values[i], to = is_between ? profile.values[i + 1] : from;
    const double share =
        is_between ? std::log(lag / profile.lags[i]) / std::log(profile.lags[i + 1] / profile.lags[i]) : 0.0;
    values.push_back(from > 0 && to > 0 ? from * std::pow(to / from, share) : from + (to - from) * share);
  }
  return values;
}

std::vector<double> path_sum(std::span<const std::vector<double>> kernels) {
  if (kernels.empty()) return {};
  std::vector<double> sum = kernels.front();
  for (const std::vector<double>& kernel : kernels.subspan(1)) {
    std::vector<double> longer(sum.size(), 0.0);
    for (std::size_t lag = 0; lag < sum.size(); ++lag) {
      for (std::size_t jump = 0; jump <= lag; ++jump) longer[lag] += kernel[jump] * sum[lag - jump];
    }
    sum = std::move(longer);
  }
  return sum;
}

NormEstimate spectral_norm_from_rows(std::span<const double> rows, int m, int columns, bool complete) {
  NormEstimate estimate;
  if (m < 1 || columns < 1 || rows.size() != static_cast<std::size_t>(m) * static_cast<std::size_t>(columns))
    return estimate;
  if (complete) {
    estimate.value = estimate.low = estimate.high = spectral_norm(rows, m, columns);
    return estimate;
  }
  double first = 0, second = 0;  // tr A and tr A^2
  for (int i = 0; i < m; ++i) {
    const double* a = rows.data() + static_cast<std::ptrdiff_t>(i) * columns;
    for (int j = 0; j <= i; ++j) {
      const double* b = rows.data() + static_cast<std::ptrdiff_t>(j) * columns;
      double dot = 0;
      for (int c = 0; c < columns; ++c) dot += a[c] * b[c];
      (i == j ? first : second) += i == j ? dot : dot * dot;
    }
  }
  first /= m;
  second /= 0.5 * m * (m - 1);
  estimate.rows = m;
  if (!(first > 0)) return estimate;
  estimate.low = std::sqrt(second / first);
  estimate.high = std::pow(second, 0.25);
  estimate.value = std::sqrt(estimate.low * estimate.high);
  return estimate;
}

SamplingAllowance sampling_allowance(int rows) {
  if (rows < 1) return {};
  // The upper bound is a fourth root of products of different rows, which scatters a little more than chi^2: 2.1 stands
  // in for the normal quantile 1.96, found by simulation for 3 to 64 rows.
  const double variance = 2.0 / (9.0 * rows), deviation = std::sqrt(variance);
  const double most = std::pow(1 - variance + 1.96 * deviation, 1.5),
               least = std::pow(std::max(0.05, 1 - variance - 2.1 * deviation), 1.5);
  return {most, 1 / least};
}

}  // namespace afterglow
