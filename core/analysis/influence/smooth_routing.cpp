// Sensitivities of a softmax routing by its closed form, and what they add up to.
#include "core/analysis/influence/smooth_routing.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/analysis/influence/influence.h"
#include "core/analysis/linear_algebra/decompositions.h"

namespace afterglow {
namespace {

/// Turns the pairs of one head's rows as rotary position code does at this token.
void turn(Eigen::Ref<RowMajor> rows, double base, int token) {
  if (!(base > 0)) return;
  const auto width = rows.rows();
  for (Eigen::Index i = 0; i + 1 < width; i += 2) {
    const double angle = token * std::pow(base, -static_cast<double>(i) / static_cast<double>(width));
    const RowMajor first = rows.row(i), second = rows.row(i + 1);
    rows.row(i) = std::cos(angle) * first - std::sin(angle) * second;
    rows.row(i + 1) = std::sin(angle) * first + std::cos(angle) * second;
  }
}

/// One head of a routing as the formulas need it; everything is turned to where it stands.
class RoutedHead {
 public:
  RoutedHead(const SmoothRouting& routing, int head, const RowMajor& jacobian, int source)
      : routing_(routing),
        alpha_(routing.alpha.data() + std::size_t(head) * routing.tokens * routing.tokens, routing.tokens,
               routing.tokens),
        source_(source) {
    const int key_head = head / (routing.heads / routing.key_heads);
    queries_ = mapped(routing.query, head);
    keys_ = mapped(routing.key, key_head);
    key_jacobian_ = rows_of(routing.key, key_head, routing.head_width) * jacobian;
    query_jacobian_ = rows_of(routing.query, head, routing.head_width) * jacobian;
    turn(key_jacobian_, routing.rotary_base, source);
    turn(query_jacobian_, routing.rotary_base, source);
    values_ = RowMajorView(routing.values.data(), routing.tokens, routing.key_heads * routing.value_width)
                  .middleCols(key_head * routing.value_width, routing.value_width);
    value_jacobian_ = routing.value.weight.empty()
                          ? RowMajor::Zero(routing.value_width, jacobian.cols())
                          : RowMajor(rows_of(routing.value, key_head, routing.value_width) * jacobian);
    value_norm_ = spectral_norm(value_jacobian_);
  }
  double weight(int t) const { return alpha_(t, source_); }
  /// |∂logit_t,source/∂x|, t > source.
  double logit_slope(int t) const { return routing_.scale * (queries_.row(t) * key_jacobian_).norm(); }
  /// At most |∂o_t/∂x|, t > source.
  double later(int t) const {
    const double moved = (values_.row(source_) - alpha_.row(t) * values_).norm();
    return weight(t) * (value_norm_ + moved * logit_slope(t));
  }
  /// ∂o_t/∂x at t = source, where the query moves as well.
  RowMajor own() const {
    const RowMajor answer = alpha_.row(source_) * values_, mean_key = alpha_.row(source_) * keys_;
    RowMajor total = weight(source_) * value_jacobian_;
    total += (routing_.scale * weight(source_)) * (values_.row(source_) - answer).transpose() *
             (queries_.row(source_) * key_jacobian_);
    const RowMajor spread = alpha_.row(source_).transpose().asDiagonal() * (keys_.rowwise() - mean_key.row(0));
    total += routing_.scale * (values_.transpose() * spread) * query_jacobian_;
    return total;
  }

 private:
  RowMajor rows_of(const TokenMap& map, int head, int height) const {
    return RowMajorView(map.weight.data() + std::size_t(head) * height * routing_.width, height, routing_.width);
  }
  RowMajor mapped(const TokenMap& map, int head) const {
    const RowMajorView inputs(routing_.inputs.data(), routing_.tokens, routing_.width);
    RowMajor result = inputs * rows_of(map, head, routing_.head_width).transpose();
    if (!map.bias.empty())
      result.rowwise() += Eigen::Map<const Eigen::RowVectorXd>(
          map.bias.data() + std::ptrdiff_t(head) * routing_.head_width, routing_.head_width);
    for (int t = 0; t < routing_.tokens; ++t) {
      RowMajor column = result.row(t).transpose();
      turn(column, routing_.rotary_base, t);
      result.row(t) = column.transpose();
    }
    return result;
  }

  const SmoothRouting& routing_;
  RowMajorView alpha_;
  int source_;
  RowMajor queries_, keys_, values_;                         // [T*width of the head]
  RowMajor key_jacobian_, query_jacobian_, value_jacobian_;  // [width of the head*columns]
  double value_norm_ = 0;
};

bool fits(const SmoothRouting& r, std::span<const double> jacobian, int columns, int source) {
  const auto size = [](int a, int b, int c = 1) { return std::size_t(a) * std::size_t(b) * std::size_t(c); };
  const int values = r.key_heads * r.value_width, keys = r.key_heads * r.head_width, queries = r.heads * r.head_width;
  const auto is_map = [&](const TokenMap& map, int rows) {
    return map.weight.size() == size(rows, r.width) && (map.bias.empty() || map.bias.size() == size(rows, 1));
  };
  return r.tokens > 0 && r.width > 0 && r.heads > 0 && r.key_heads > 0 && r.heads % r.key_heads == 0 && columns > 0 &&
         source >= 0 && source < r.tokens && jacobian.size() == size(r.width, columns) &&
         r.alpha.size() == size(r.heads, r.tokens, r.tokens) && r.inputs.size() == size(r.tokens, r.width) &&
         is_map(r.query, queries) && is_map(r.key, keys) && r.values.size() == size(r.tokens, values) &&
         (r.value.weight.empty() || is_map(r.value, values)) &&
         (r.output.empty() || r.output.size() % size(r.heads, r.value_width) == 0);
}

}  // namespace

std::vector<double> answer_sensitivity(const SmoothRouting& routing, std::span<const double> jacobian, int columns,
                                       int source) {
  if (!fits(routing, jacobian, columns, source)) return {};
  const RowMajor J = RowMajorView(jacobian.data(), routing.width, columns);
  const int joined = routing.heads * routing.value_width;
  std::vector<double> squares(static_cast<std::size_t>(routing.tokens), 0.0);
  RowMajor own(joined, columns);
  for (int head = 0; head < routing.heads; ++head) {
    const RoutedHead of(routing, head, J, source);
    own.middleRows(head * routing.value_width, routing.value_width) = of.own();
    for (int t = source + 1; t < routing.tokens; ++t) squares[std::size_t(t)] += std::pow(of.later(t), 2);
  }
  double outlet = 1;
  if (!routing.output.empty()) {
    const RowMajor W = RowMajorView(routing.output.data(), std::ptrdiff_t(routing.output.size()) / joined, joined);
    outlet = spectral_norm(W);
    own = RowMajor(W * own);
  }
  for (double& square : squares) square = outlet * std::sqrt(square);
  squares[static_cast<std::size_t>(source)] = spectral_norm(own);
  return squares;
}

std::vector<double> logit_sensitivity(const SmoothRouting& routing, std::span<const double> jacobian, int columns,
                                      int source) {
  if (!fits(routing, jacobian, columns, source)) return {};
  const RoutedHead of(routing, 0, RowMajorView(jacobian.data(), routing.width, columns), source);
  std::vector<double> slopes(static_cast<std::size_t>(routing.tokens), 0.0);
  for (int t = source + 1; t < routing.tokens; ++t) slopes[std::size_t(t)] = of.weight(t) * of.logit_slope(t);
  return slopes;
}

double dilution_constant(std::span<const double> at, int first, int end, int offset) {
  double constant = 0;
  for (int t = first + 1; t < std::min(end, static_cast<int>(at.size())); ++t)
    constant = std::max(constant, at[static_cast<std::size_t>(t)] * (t + offset));
  return constant;
}

std::vector<double> forced_envelope(const SourceForcing& forcing, double beta) {
  const int tokens = static_cast<int>(forcing.forward.size()), source = forcing.source;
  std::vector<double> sum = forcing.forward;
  for (std::size_t t = 0; t < std::min(sum.size(), forcing.routing.size()); ++t) sum[t] += forcing.routing[t];
  const double of_sum = dilution_constant(sum, source, tokens, 0), constant = envelope_constant(beta);
  std::vector<double> tail, heights{std::numeric_limits<double>::infinity()};
  for (int lag = 0; lag < tokens; ++lag) tail.push_back(std::pow(lag, -beta));
  for (int t = source + 1; t < tokens; ++t) {
    double convolved = 0;
    for (int j = source + 1; j < t; ++j) convolved += tail[std::size_t(t - j)] / j;
    const double kernel = constant * (forcing.own * tail[std::size_t(t - source)] + of_sum * convolved);
    heights.push_back(forcing.outlet * (of_sum / t + kernel));
  }
  return heights;
}

std::vector<double> forced_solve(const SourceForcing& forcing, std::span<const float> resolvent) {
  const std::size_t tokens = forcing.forward.size(), source = static_cast<std::size_t>(forcing.source);
  if (resolvent.size() != tokens * tokens) return {};
  const auto force = [&](std::size_t j) {
    return j == source ? forcing.own : forcing.forward[j] + (forcing.routing.empty() ? 0 : forcing.routing[j]);
  };
  std::vector<double> heights;
  for (std::size_t t = source; t < tokens; ++t) {
    double sum = 0;
    for (std::size_t j = source; j <= t; ++j)
      sum += std::abs(static_cast<double>(resolvent[t * tokens + j])) * force(j);
    heights.push_back(forcing.outlet * sum);
  }
  heights.front() = std::numeric_limits<double>::infinity();
  return heights;
}

std::vector<double> diluted_envelope(const SourceForcing& forcing) {
  const int tokens = static_cast<int>(forcing.forward.size());
  const double constant = dilution_constant(forcing.forward, forcing.source, tokens, 1);
  std::vector<double> heights{std::numeric_limits<double>::infinity()};
  for (int t = forcing.source + 1; t < tokens; ++t) heights.push_back(forcing.outlet * constant / (t + 1));
  return heights;
}

}  // namespace afterglow
