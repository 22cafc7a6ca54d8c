// Constants of a routing that follows its inputs, against Jacobians by finite differences and by plain loops.
#include "core/analysis/influence/smooth_routing.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/analysis/influence/influence.h"
#include "core/analysis/linear_algebra/spectrum.h"
#include "core/random/random.h"

namespace afterglow::smooth_routing {
namespace {

constexpr int tokens = 9, width = 6, heads = 2, head_width = 3;

std::vector<double> normal_draws(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<double> values(count);
  for (double& value : values) value = random.normal();
  return values;
}

std::vector<double> token_mapped(const TokenMap& map, const std::vector<double>& x, std::size_t rows) {
  std::vector<double> y(tokens * rows, 0.0);
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t r = 0; r < rows; ++r) {
      if (!map.bias.empty()) y[t * rows + r] = map.bias[r];
      for (std::size_t c = 0; c < width; ++c) y[t * rows + r] += map.weight[r * width + c] * x[t * width + c];
    }
  }
  return y;
}

void turned_in_place(std::vector<double>& x, std::size_t rows, double base) {
  for (std::size_t t = 0; base > 0 && t < tokens; ++t) {
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t i = r % head_width;
      if (i % 2 == 1 || i + 1 >= head_width) continue;
      const double angle = static_cast<double>(t) * std::pow(base, -static_cast<double>(i) / head_width);
      const double first = x[t * rows + r], second = x[t * rows + r + 1];
      x[t * rows + r] = first * std::cos(angle) - second * std::sin(angle);
      x[t * rows + r + 1] = first * std::sin(angle) + second * std::cos(angle);
    }
  }
}

/// Attention of two query heads over one key head, by its definition; fills alpha and values, returns the answers.
std::vector<double> attention_answers(SmoothRouting& r, const std::vector<double>& x,
                                      const std::vector<double>* fixed_values) {
  std::vector<double> q = token_mapped(r.query, x, heads * head_width), k = token_mapped(r.key, x, head_width);
  r.values = fixed_values ? *fixed_values : token_mapped(r.value, x, head_width);
  turned_in_place(q, heads * head_width, r.rotary_base);
  turned_in_place(k, head_width, r.rotary_base);
  r.inputs = x;
  r.alpha.assign(heads * tokens * tokens, 0.0);
  std::vector<double> joined(tokens * heads * head_width, 0.0), y(tokens * width, 0.0);
  for (std::size_t h = 0; h < heads; ++h) {
    for (std::size_t t = 0; t < tokens; ++t) {
      double sum = 0;
      double* row = r.alpha.data() + (h * tokens + t) * tokens;
      for (std::size_t j = 0; j <= t; ++j) {
        double dot = 0;
        for (std::size_t i = 0; i < head_width; ++i) dot += q[(t * heads + h) * head_width + i] * k[j * head_width + i];
        sum += row[j] = std::exp(r.scale * dot);
      }
      for (std::size_t j = 0; j <= t; ++j) {
        row[j] /= sum;
        for (std::size_t i = 0; i < head_width; ++i)
          joined[(t * heads + h) * head_width + i] += row[j] * r.values[j * head_width + i];
      }
    }
  }
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t o = 0; o < width; ++o) {
      for (std::size_t i = 0; i < heads * head_width; ++i)
        y[t * width + o] += r.output[o * heads * head_width + i] * joined[t * heads * head_width + i];
    }
  }
  return y;
}

SmoothRouting two_heads(double rotary_base) {
  SmoothRouting r;
  r.tokens = tokens;
  r.width = width;
  r.heads = heads;
  r.key_heads = 1;
  r.head_width = r.value_width = head_width;
  r.query = {normal_draws(heads * head_width * width, 1), normal_draws(heads * head_width, 2)};
  r.key = {normal_draws(head_width * width, 3), normal_draws(head_width, 4)};
  r.value = {normal_draws(head_width * width, 5), normal_draws(head_width, 6)};
  r.output = normal_draws(width * heads * head_width, 7);
  r.scale = 0.4;
  r.rotary_base = rotary_base;
  return r;
}

/// |d y_t / d x_source| by central differences.
std::vector<double> difference_norms(const SmoothRouting& of, const std::vector<double>& x, int source,
                                     const std::vector<double>* fixed_values) {
  SmoothRouting r = of;
  constexpr double step = 1e-5;
  std::vector<std::vector<double>> jacobians(tokens, std::vector<double>(width * width));
  for (std::size_t c = 0; c < width; ++c) {
    std::vector<double> up = x, down = x;
    up[static_cast<std::size_t>(source) * width + c] += step;
    down[static_cast<std::size_t>(source) * width + c] -= step;
    const std::vector<double> above = attention_answers(r, up, fixed_values),
                              below = attention_answers(r, down, fixed_values);
    for (std::size_t t = 0; t < tokens; ++t) {
      for (std::size_t o = 0; o < width; ++o)
        jacobians[t][o * width + c] = (above[t * width + o] - below[t * width + o]) / (2 * step);
    }
  }
  std::vector<double> norms;
  for (const std::vector<double>& jacobian : jacobians) norms.push_back(spectral_norm(jacobian, width, width));
  return norms;
}

std::vector<double> unit_map() {
  std::vector<double> one(width * width, 0.0);
  for (std::size_t i = 0; i < width; ++i) one[i * width + i] = 1;
  return one;
}

TEST(SmoothRouting, IsExactAtTheSourceAndNeverTooLowLater) {
  for (const double base : {0.0, 100.0}) {
    SmoothRouting r = two_heads(base);
    const std::vector<double> x = normal_draws(tokens * width, 8);
    attention_answers(r, x, nullptr);
    for (const int source : {0, 3}) {
      const std::vector<double> naive = difference_norms(r, x, source, nullptr);
      const std::vector<double> bound = answer_sensitivity(r, unit_map(), width, source);
      ASSERT_EQ(bound.size(), naive.size());
      for (int t = 0; t < source; ++t) EXPECT_EQ(bound[static_cast<std::size_t>(t)], 0) << "causal";
      EXPECT_NEAR(bound[static_cast<std::size_t>(source)], naive[static_cast<std::size_t>(source)], 1e-6);
      for (std::size_t t = static_cast<std::size_t>(source) + 1; t < tokens; ++t) {
        EXPECT_GE(bound[t], naive[t] * (1 - 1e-7)) << base << " " << source << " " << t;
        EXPECT_LE(bound[t], naive[t] * 8) << "it is no idle bound";
      }
    }
  }
}

// Values that do not follow the source leave the weights' own sensitivity, which the logits bound (lemma B.4).
TEST(SmoothRouting, LogitsBoundWhatTheWeightsDo) {
  SmoothRouting r = two_heads(0);
  r.output = unit_map();
  const std::vector<double> x = normal_draws(tokens * width, 8);
  attention_answers(r, x, nullptr);
  const std::vector<double> values = r.values;
  r.value = {};
  double largest = 0;
  for (std::size_t j = 0; j < tokens; ++j)
    largest = std::max(largest, std::hypot(values[j * 3], values[j * 3 + 1], values[j * 3 + 2]));
  const std::vector<double> slopes = logit_sensitivity(r, unit_map(), width, 2);
  const std::vector<double> bound = answer_sensitivity(r, unit_map(), width, 2);
  const std::vector<double> naive = difference_norms(r, x, 2, &values);
  for (std::size_t t = 3; t < tokens; ++t) EXPECT_GE(bound[t], naive[t] * (1 - 1e-7));
  SmoothRouting one = r;  // a single head, so that the logits are all of it
  one.heads = 1;
  one.query = {{r.query.weight.begin(), r.query.weight.begin() + head_width * width},
               {r.query.bias.begin(), r.query.bias.begin() + head_width}};
  one.alpha.resize(tokens * tokens);
  one.output.clear();
  const std::vector<double> of_one = answer_sensitivity(one, unit_map(), width, 2);
  for (std::size_t t = 3; t < tokens; ++t) {
    EXPECT_LE(of_one[t], 2 * largest * slopes[t] * (1 + 1e-12)) << "2 S C_l / t of the paper";
    // d logit_t2 / d x_2 = scale W_k^T q_t
    std::vector<double> q(head_width, 0.0);
    for (std::size_t i = 0; i < head_width; ++i) {
      q[i] = one.query.bias[i];
      for (std::size_t c = 0; c < width; ++c) q[i] += one.query.weight[i * width + c] * x[t * width + c];
    }
    double square = 0;
    for (std::size_t c = 0; c < width; ++c) {
      double sum = 0;
      for (std::size_t i = 0; i < head_width; ++i) sum += one.key.weight[i * width + c] * q[i];
      square += sum * sum;
    }
    EXPECT_NEAR(slopes[t], one.alpha[t * tokens + 2] * one.scale * std::sqrt(square), 1e-12);
  }
}

TEST(SmoothRouting, AnswersNothingForSizesThatDoNotFit) {
  SmoothRouting r = two_heads(0);
  attention_answers(r, normal_draws(tokens * width, 8), nullptr);
  EXPECT_TRUE(answer_sensitivity(r, unit_map(), width, tokens).empty());
  r.alpha.pop_back();
  EXPECT_TRUE(answer_sensitivity(r, unit_map(), width, 0).empty());
  EXPECT_TRUE(logit_sensitivity(r, unit_map(), width, 0).empty());
}

/// A feedback of uniform routing whose forcing is known: C / t later than the source, `own` at it.
SourceForcing simple_forcing(int source, int length, double constant, double own) {
  SourceForcing forcing;
  forcing.source = source;
  forcing.own = own;
  forcing.outlet = 2;
  for (int t = 0; t < length; ++t) {
    forcing.forward.push_back(t > source ? 0.75 * constant / t : 0);
    forcing.routing.push_back(t > source ? 0.25 * constant / t : 0);
  }
  return forcing;
}

// The recursion itself, J_t = u_t + gamma sum_{j<t} alpha_tj J_j with every norm attained, lies on the measured solve
// and below theorem 23.
TEST(ForcedFeedback, KeepsTheRecursionBelowItsEnvelope) {
  constexpr int length = 150;
  for (const double gamma : {0.2, 0.5, 0.9}) {
    std::vector<double> B(length * length, 0.0);
    for (int t = 1; t < length; ++t) {
      for (int j = 0; j < t; ++j) B[static_cast<std::size_t>(t * length + j)] = gamma / t;
    }
    const std::vector<double> R = resolvent(B, length);
    const std::vector<float> solve(R.begin(), R.end());
    for (const int source : {0, 4, 40}) {
      const SourceForcing forcing = simple_forcing(source, length, 1.5, 3);
      const std::vector<double> envelope = forced_envelope(forcing, 1 - gamma), exact = forced_solve(forcing, solve);
      ASSERT_EQ(envelope.size(), static_cast<std::size_t>(length - source));
      std::vector<double> J{3};
      for (int t = source + 1; t < length; ++t) {
        double sum = 1.5 / t;
        for (const double earlier : J) sum += gamma / t * earlier;
        J.push_back(sum);
        const auto lag = static_cast<std::size_t>(t - source);
        EXPECT_NEAR(exact[lag], 2 * sum, 1e-5 * sum);
        EXPECT_LE(2 * sum, envelope[lag]) << gamma << " " << source << " " << lag;
        if (source == 0) {
          EXPECT_LE(envelope[lag], 2 * sum * 20) << "the height means something";
        }
      }
    }
  }
}

TEST(ForcedFeedback, DilutionIsTheLeastConstant) {
  const SourceForcing forcing = simple_forcing(3, 50, 2, 0);
  EXPECT_NEAR(dilution_constant(forcing.forward, 3, 50, 0), 1.5, 1e-12);
  EXPECT_NEAR(dilution_constant(forcing.forward, 3, 50, 1), 1.5 * 5 / 4, 1e-12) << "at the first token after it";
  EXPECT_EQ(dilution_constant(forcing.forward, 60, 50, 0), 0);
  const std::vector<double> heights = diluted_envelope(forcing);
  EXPECT_TRUE(std::isinf(heights[0]));
  EXPECT_NEAR(heights[9], 2 * 1.875 / 13, 1e-12);
}

}  // namespace
}  // namespace afterglow::smooth_routing
