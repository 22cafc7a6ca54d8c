// Averages over sources, and summary numbers of a tail.
#include "core/engine/analyses/influence/influence_tail.h"

#include <algorithm>
#include <cmath>

#include "core/analysis/influence/influence.h"

namespace afterglow {

namespace {
constexpr double first_fitted_lag = 4;  // short filters and the diagonal dominate smaller lags
constexpr std::size_t min_fitted = 6;
}  // namespace

std::vector<JacobianPlan::Block> influence_blocks(std::span<const int> sources, int tokens, int per_decade) {
  std::vector<JacobianPlan::Block> blocks;
  const int oldest = sources.empty() ? 0 : *std::max_element(sources.begin(), sources.end());
  for (const int lag : spread_lags(tokens - 1 - oldest, per_decade)) {
    for (const int source : sources) blocks.push_back({source + lag, source});
  }
  return blocks;
}

void fill_tail(InfluenceTail& tail, std::span<const JacobianPlan::Block> blocks, std::span<const NormEstimate> norms) {
  tail.lags.clear();
  tail.values.clear();
  tail.low.clear();
  tail.high.clear();
  bool is_exact = true;
  for (std::size_t i = 0; i < blocks.size();) {
    const int lag = blocks[i].query - blocks[i].source;
    NormEstimate sum;
    int count = 0;
    for (; i < blocks.size() && blocks[i].query - blocks[i].source == lag; ++i, ++count) {
      sum.value += norms[i].value;
      sum.low += norms[i].low;
      sum.high += norms[i].high;
      sum.rows += norms[i].rows;
      is_exact = is_exact && norms[i].low == norms[i].high;
    }
    tail.lags.push_back(lag);
    tail.values.push_back(sum.value / count);
    const SamplingAllowance allowance = sampling_allowance(sum.rows);  // the sources are independent of each other
    tail.low.push_back(sum.low / count / allowance.low);
    tail.high.push_back(sum.high / count * allowance.high);
  }
  if (is_exact) {
    tail.low.clear();
    tail.high.clear();
  }
  judge_tail(tail);
}

void judge_tail(InfluenceTail& tail) {
  tail.is_silent = std::none_of(tail.values.begin(), tail.values.end(), [](double v) { return v > 0; });
  const auto later = std::count_if(tail.lags.begin(), tail.lags.end(), [](double l) { return l >= first_fitted_lag; });
  const double first = static_cast<std::size_t>(later) >= min_fitted ? first_fitted_lag : 1.0;
  tail.fit = fit_influence(tail.lags, tail.values, first);
  tail.one_percent_lag = lag_of_share({tail.lags, tail.values}, 0.01);
}

void fill_tail(InfluenceTail& tail, std::span<const std::vector<float>> weights, std::span<const int> sources,
               int tokens, int per_decade) {
  tail.lags.clear();
  tail.values.clear();
  for (const JacobianPlan::Block& block : influence_blocks(sources, tokens, per_decade)) {
    const double lag = block.query - block.source;
    double sum = 0;
    for (const std::vector<float>& w : weights)
      sum += std::abs(w[static_cast<std::size_t>(block.query * tokens + block.source)]);
    const double share = sum / static_cast<double>(weights.size() * sources.size());
    if (tail.lags.empty() || tail.lags.back() != lag) {
      tail.lags.push_back(lag);
      tail.values.push_back(share);
    } else {
      tail.values.back() += share;
    }
  }
  judge_tail(tail);
}

}  // namespace afterglow
