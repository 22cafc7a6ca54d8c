// The closed forms of a layer's path through its queries: propositions J.2 and J.4 between the projections.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/analysis/attention/query_jacobian.h"
#include "core/analysis/linear_algebra/spectrum.h"
#include "tests/core/layers/captured_small_layer.h"

namespace afterglow {
namespace {

constexpr int bounded_tokens = 9, d = 8;

/// W x_t for every token: [T*rows].
std::vector<double> mapped(const std::vector<double>& W, const std::vector<double>& x) {
  const std::size_t rows = W.size() / d;
  std::vector<double> y;
  for (std::size_t t = 0; t < bounded_tokens; ++t) {
    for (std::size_t i = 0; i < rows; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < d; ++j) sum += W[i * d + j] * x[t * d + j];
      y.push_back(sum);
    }
  }
  return y;
}

TEST(QueryBound, OfAttentionIsPropositionJ2BetweenItsProjections) {
  constexpr int heads = 2, D = 4;
  CapturedSmallLayer small("attention", {{"d", d}, {"n_heads", heads}, {"n_kv_heads", 1}, {"use_rope", false}},
                           bounded_tokens, d);
  const auto parameter = [&](const char* name) {
    return small.read.download(small.store.find(std::string("layer.") + name + "_proj.weight")->value);
  };
  const std::vector<double> x = small.captured().values("input"), W_q = parameter("q"), W_o = parameter("o"),
                            keys = mapped(parameter("k"), x), values = mapped(parameter("v"), x), all = mapped(W_q, x);
  const double bound = find_layer_kind("attention")->readers.query_bound(small.captured())();
  const double of_head = 0.5 / 2 * spectral_norm(values, bounded_tokens, D) * spectral_norm(keys, bounded_tokens, D);
  EXPECT_NEAR(bound, spectral_norm(W_o, d, d) * of_head * spectral_norm(W_q, d, d), 1e-9 * bound)
      << "both heads share their keys and values";
  for (int t = 0; t < bounded_tokens; ++t) {
    std::vector<double> path(d * d, 0.0);  // W_o diag(J_1, J_2) W_q of this token
    for (int h = 0; h < heads; ++h) {
      const auto seen = static_cast<std::size_t>((t + 1) * D), at = static_cast<std::size_t>((t * heads + h) * D);
      const auto own = attention_query_jacobians(std::span(keys).first(seen), std::span(values).first(seen),
                                                 std::span(all).subspan(at, D), t + 1, D, 0.5);
      ASSERT_EQ(own.size(), 1u);
      for (int i = 0; i < d * d; ++i) {
        for (int p = 0; p < D * D; ++p)
          path[i] += W_o[i / d * d + h * D + p / D] * own[0].J[p] * W_q[(h * D + p % D) * d + i % d];
      }
    }
    EXPECT_LE(spectral_norm(path, d, d), bound) << t;
  }
}

/// A layer whose output projection, which starts at zero, lets its answers through.
double ska_bound_with(nlohmann::json config) {
  config.update({{"d", d}, {"H", 2}, {"r", 3}, {"P", 4}});
  CapturedSmallLayer small("ska", config, bounded_tokens, d);
  small.backend->fill(small.store.find("layer.o_proj.weight")->value, 0.5);
  return find_layer_kind("ska")->readers.query_bound(small.captured())();
}

TEST(QueryBound, OfSkaIsThatOfTheGroupsThatAnswer) {
  const double whole = ska_bound_with({{"mode", "prefix"}});
  EXPECT_GT(whole, 0);
  EXPECT_TRUE(std::isfinite(whole));
  EXPECT_EQ(ska_bound_with({{"mode", "chunk"}, {"chunk", 16}}), 0) << "the first chunk has nothing to read";
  EXPECT_GT(ska_bound_with({{"mode", "chunk"}, {"chunk", 4}}), 0);
  EXPECT_GE(ska_bound_with({{"mode", "recurrent"}}), whole * (1 - 1e-6)) << "its last group is the whole sequence";
  EXPECT_TRUE(std::isnan(ska_bound_with({{"mode", "recurrent"}, {"norm_scope", "token"}})))
      << "J.4 knows no query that is divided by its own length";
}

}  // namespace
}  // namespace afterglow
