// How a token's scores choose among experts.
#pragma once
#include <cmath>
#include <cstdint>

namespace afterglow {

/// Scores are the softmax or the sigmoids of logits [rows, experts]. The `chosen` experts with the largest score + bias
/// are taken, ties to the smaller index, and with several `groups` of neighbouring experts only from the `kept_groups`
/// whose two largest sums are the largest. The weight of an expert taken is `factor` times its score, which is divided
/// by the sum of the scores taken + eps where `normalised`; all other weights are 0.
struct Router {
  bool sigmoid = false;
  std::int64_t chosen = 1;
  bool normalised = false;
  double eps = 0, factor = 1;
  std::int64_t groups = 1, kept_groups = 1;
};
inline constexpr std::int64_t max_router_groups = 64;

/// Which experts the scores of one token choose; one pure function for every back end.
template <class T>
class RouterChoice {
 public:
  constexpr RouterChoice(const Router& router, std::int64_t experts, const T* scores, const T* bias)
      : experts_(experts), in_group_(experts / router.groups), scores_(scores), bias_(bias) {
    if (router.kept_groups < router.groups) keep_groups(router);
    for (std::int64_t i = 0; i < router.chosen; ++i) last_ = next_below(last_);
  }
  constexpr bool takes(std::int64_t expert) const {
    return is_kept(expert) && !comes_before(last_, {value(expert), expert});
  }

 private:
  struct Place {
    T value;
    std::int64_t index;  ///< -1: before every other
  };
  static constexpr bool comes_before(const Place& a, const Place& b) {
    return a.index < 0 || a.value > b.value || (a.value == b.value && a.index < b.index);
  }
  constexpr T value(std::int64_t expert) const { return scores_[expert] + (bias_ ? bias_[expert] : T{0}); }
  constexpr bool is_kept(std::int64_t expert) const { return kept_ >> (expert / in_group_) & 1; }

  /// The first place after `last` in order of falling values.
  constexpr Place next_below(const Place& last) const {
    Place best{T{0}, -1};
    for (std::int64_t e = 0; e < experts_; ++e) {
      const Place at{value(e), e};
      if (!is_kept(e) || at.index == last.index || !comes_before(last, at)) continue;
      if (best.index < 0 || comes_before(at, best)) best = at;
    }
    return best.index < 0 ? last : best;  // numbers that are not finite compare with none
  }
  constexpr T sum_of_two(std::int64_t group) const {
    Place first{T{0}, -1}, second{T{0}, -1};
    for (std::int64_t e = group * in_group_; e < (group + 1) * in_group_; ++e) {
      const Place at{value(e), e};
      if (first.index < 0 || comes_before(at, first)) {
        second = first;
        first = at;
      } else if (second.index < 0 || comes_before(at, second)) {
        second = at;
      }
    }
    return first.value + second.value;
  }
  constexpr void keep_groups(const Router& router) {
    kept_ = 0;
    T sums[max_router_groups] = {};
    for (std::int64_t g = 0; g < router.groups; ++g) sums[g] = sum_of_two(g);
    for (std::int64_t g = 0; g < router.groups; ++g) {
      std::int64_t before = 0;
      for (std::int64_t other = 0; other < router.groups; ++other)
        before += other != g && comes_before({sums[other], other}, {sums[g], g});
      if (before < router.kept_groups) kept_ |= std::uint64_t{1} << g;
    }
  }

  std::int64_t experts_, in_group_;
  const T *scores_, *bias_;
  std::uint64_t kept_ = ~std::uint64_t{0};
  Place last_{T{0}, -1};
};

/// Scores of n logits, which are computed as they are needed: rows of experts are short.
template <class T>
class RouterScores {
 public:
  constexpr RouterScores(const Router& router, std::int64_t n, const T* x) : sigmoid_(router.sigmoid), x_(x) {
    for (std::int64_t e = 0; e < n && !sigmoid_; ++e) most_ = e == 0 || x[e] > most_ ? x[e] : most_;
    for (std::int64_t e = 0; e < n && !sigmoid_; ++e) sum_ += std::exp(x[e] - most_);
  }
  constexpr T operator[](std::int64_t e) const {
    return sigmoid_ ? T{1} / (T{1} + std::exp(-x_[e])) : std::exp(x_[e] - most_) / sum_;
  }

 private:
  bool sigmoid_;
  const T* x_;
  T most_{}, sum_{};
};

/// One row of `Kernels::route`.
template <class T>
constexpr void route_row(const Router& router, std::int64_t n, const T* x, const T* bias, T* y) {
  const RouterScores<T> scores(router, n, x);
  for (std::int64_t e = 0; e < n; ++e) y[e] = scores[e];
  const RouterChoice<T> choice(router, n, y, bias);
  T sum = static_cast<T>(router.eps);
  for (std::int64_t e = 0; e < n; ++e) sum += choice.takes(e) ? y[e] : T{0};
  const T factor = static_cast<T>(router.factor) / (router.normalised ? sum : T{1});
  for (std::int64_t e = 0; e < n; ++e) y[e] = choice.takes(e) ? y[e] * factor : T{0};
}

/// One row of its gradient, d x; calls put(expert, slope). With s the scores, c those taken and S their sum + eps:
/// d s_i = factor (dy_i - sum_c dy s / S) / S where normalised, and else factor dy_i, for i in c.
template <class T, class Put>
constexpr void route_row_backward(const Router& router, std::int64_t n, const T* x, const T* y, const T* dy,
                                  const Put& put) {
  const RouterScores<T> scores(router, n, x);
  T sum = static_cast<T>(router.eps), mean{}, shared{};
  for (std::int64_t e = 0; e < n; ++e) {
    if (y[e] == T{0}) continue;
    sum += scores[e];
    mean += scores[e] * dy[e];
  }
  const T factor = static_cast<T>(router.factor) / (router.normalised ? sum : T{1});
  const T shift = router.normalised ? mean / sum : T{0};
  const auto slope = [&](std::int64_t e) { return y[e] == T{0} ? T{0} : factor * (dy[e] - shift); };
  for (std::int64_t e = 0; e < n && !router.sigmoid; ++e) shared += scores[e] * slope(e);
  for (std::int64_t e = 0; e < n; ++e)
    put(e, scores[e] * (router.sigmoid ? slope(e) * (T{1} - scores[e]) : slope(e) - shared));
}

}  // namespace afterglow
