// Rows of Jacobian blocks, computed pass by pass.
#include "core/engine/analyses/influence/jacobian_measure.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/engine/training/inspected_example.h"
#include "core/layers/host_values.h"
#include "core/random/random.h"

namespace afterglow {
namespace {

constexpr std::int64_t memory_of_a_pass = std::int64_t{256} << 20;  // bytes; small enough for laptop GPUs
constexpr int first_pass_tokens = 1024;                             // of one branch
constexpr double first_fitted_lag = 4;  // short filters and the diagonal dominate smaller lags
constexpr std::size_t min_fitted = 6;

/// Tokens [first, first + count) of sequence b of a contiguous [B,T,d].
Tensor tokens_of(const Tensor& sequences, std::int64_t b, std::int64_t first, std::int64_t count) {
  const std::int64_t length = sequences.shape[1], width = sequences.shape[2];
  auto* address =
      sequences.as<std::byte>() + (b * length + first) * width * static_cast<std::int64_t>(size_of(sequences.dtype));
  return Tensor(address, {count, width}, sequences.dtype);
}

}  // namespace

int tokens_in_a_pass(const Backend& backend) { return backend.name() == "cpu" ? 512 : 32768; }

int PassSize::tokens() const {
  if (bytes_of_a_token_ == 0) return std::min(max_tokens_, first_pass_tokens / branches_);
  return static_cast<int>(std::min<std::int64_t>(max_tokens_, memory_of_a_pass / bytes_of_a_token_));
}

void PassSize::note(std::int64_t tokens, std::size_t bytes) {
  bytes_of_a_token_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes) / tokens);
}

JacobianMeasure::JacobianMeasure(Tape& tape, DType dtype, std::vector<double> x, std::vector<std::uint8_t> context,
                                 SequenceMap map, JacobianPlan plan)
    : tape_(&tape),
      dtype_(dtype),
      x_(std::move(x)),
      context_(std::move(context)),
      map_(std::move(map)),
      plan_(std::move(plan)),
      width_(static_cast<int>(x_.size() / context_.size())),
      directions_(std::min(plan_.directions, width_)),
      complete_(plan_.directions >= width_),
      order_(plan_.blocks.size()),
      size_(plan_.tokens_at_once, plan_.branches),
      found_(plan_.blocks.size() * static_cast<std::size_t>(directions_ * width_)) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::ranges::stable_sort(order_,
                           [&](std::size_t a, std::size_t b) { return plan_.blocks[a].query < plan_.blocks[b].query; });
}

std::vector<double> JacobianMeasure::cotangent(std::size_t block, int direction) const {
  std::vector<double> u(static_cast<std::size_t>(width_), 0.0);
  if (complete_) {
    u[static_cast<std::size_t>(direction)] = 1;
    return u;
  }
  Random random(plan_.seed, cotangent_stream, block * static_cast<std::size_t>(directions_) + direction);
  for (double& value : u) value = random.normal();
  return u;
}

bool JacobianMeasure::advance() {
  if (done()) return false;
  const auto directions = static_cast<std::size_t>(directions_);
  const auto length_at = [&](std::size_t row) {
    return plan_.causal ? plan_.blocks[order_[row / directions]].query + 1 : tokens();
  };
  std::size_t end = next_ + 1;
  while (end < rows() && static_cast<int>(end + 1 - next_) * length_at(end) <= size_.tokens()) ++end;
  const int batch = static_cast<int>(end - next_), length = length_at(end - 1);

  Backend& backend = tape_->backend();
  tape_->begin(true);
  tape_->set_frozen(true);
  const auto beginning = std::span(x_).first(static_cast<std::size_t>(length * width_));
  const Var x = tape_->input(repeated(*tape_, batch, width_, dtype_, beginning));
  const Var y = map_(*tape_, x, repeated(*tape_, batch, std::span(context_).first(static_cast<std::size_t>(length))));
  const Tensor upstream = filled(*tape_, {batch, length, width_}, dtype_, 0.0).value;
  std::vector<double> cotangents;
  for (std::size_t row = next_; row < end; ++row) {
    const std::vector<double> u = cotangent(order_[row / directions], static_cast<int>(row % directions));
    cotangents.insert(cotangents.end(), u.begin(), u.end());
  }
  const Tensor queries = to_device(*tape_, {batch, 1, width_}, dtype_, cotangents);
  const Tensor answers = tape_->scratch({batch, 1, width_}, dtype_);
  for (int b = 0; b < batch; ++b) {
    const int query = plan_.blocks[order_[(next_ + b) / directions]].query;
    backend.copy(tokens_of(upstream, b, query, 1), tokens_of(queries, b, 0, 1));
  }
  tape_->backward(y, upstream);
  const Tensor gradient = tape_->gradient_of(x);
  for (int b = 0; b < batch; ++b) {
    const int source = plan_.blocks[order_[(next_ + b) / directions]].source;
    backend.copy(tokens_of(answers, b, 0, 1), tokens_of(gradient, b, source, 1));
  }
  size_.note(batch * length, tape_->arena().used());
  const std::vector<double> found = to_host(backend, answers);
  for (std::size_t row = next_; row < end; ++row) {
    const std::size_t place = order_[row / directions] * directions + row % directions;
    std::copy_n(found.begin() + static_cast<std::ptrdiff_t>((row - next_) * width_), width_,
                found_.begin() + static_cast<std::ptrdiff_t>(place * width_));
  }
  next_ = end;
  return !done();
}

std::vector<NormEstimate> JacobianMeasure::norms() const {
  std::vector<NormEstimate> norms;
  const auto size = static_cast<std::size_t>(directions_ * width_);
  for (std::size_t block = 0; block < plan_.blocks.size(); ++block)
    norms.push_back(spectral_norm_from_rows({found_.data() + block * size, size}, directions_, width_, complete_));
  return norms;
}

std::vector<JacobianPlan::Block> influence_blocks(std::span<const int> sources, int tokens, int per_decade) {
  std::vector<JacobianPlan::Block> blocks;
  const int oldest = sources.empty() ? 0 : *std::ranges::max_element(sources);
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
  tail.is_silent = std::ranges::none_of(tail.values, [](double v) { return v > 0; });
  const auto later = std::ranges::count_if(tail.lags, [](double l) { return l >= first_fitted_lag; });
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
