// What sessa and attention say of a source token's reach, against Jacobians by finite differences in float64.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/analysis/influence/influence.h"
#include "core/analysis/linear_algebra/spectrum.h"
#include "tests/core/layers/captured_small_layer.h"

namespace afterglow {
namespace {

constexpr int forced_tokens = 24, forced_width = 8;

/// |d y_t / d x_source| of the layer's output by central differences; the residual of a whole block stands at the
/// source alone.
std::vector<double> output_norms(CapturedSmallLayer& small, int source) {
  std::vector<double> x = small.read.values("layer.input");
  constexpr double step = 1e-5;
  constexpr std::size_t width = forced_width;
  const auto run = [&](const std::vector<double>& at) {
    small.tape.begin(false);
    const Shape shape{1, forced_tokens, forced_width};
    const Var in = small.tape.constant(to_device(small.tape, shape, DType::f64, at));
    return to_host(*small.backend, small.layer->forward(small.tape, in, {}).value);
  };
  std::vector<std::vector<double>> jacobians(forced_tokens, std::vector<double>(width * width));
  for (std::size_t c = 0; c < width; ++c) {
    double& moved = x[static_cast<std::size_t>(source) * width + c];
    const double kept = moved;
    moved = kept + step;
    const std::vector<double> above = run(x);
    moved = kept - step;
    const std::vector<double> below = run(x);
    moved = kept;
    for (std::size_t t = 0; t < forced_tokens; ++t) {
      for (std::size_t o = 0; o < width; ++o)
        jacobians[t][o * width + c] = (above[t * width + o] - below[t * width + o]) / (2 * step);
    }
  }
  std::vector<double> norms;
  for (const std::vector<double>& jacobian : jacobians)
    norms.push_back(spectral_norm(jacobian, forced_width, forced_width));
  return norms;
}

void expect_holds(const std::vector<double>& bound, const std::vector<double>& norms, int source, double idle) {
  ASSERT_EQ(bound.size(), norms.size() - static_cast<std::size_t>(source));
  for (std::size_t lag = 1; lag < bound.size(); ++lag) {
    const double norm = norms[static_cast<std::size_t>(source) + lag];
    EXPECT_GE(bound[lag], norm * (1 - 1e-6)) << source << " " << lag;
    EXPECT_LE(bound[lag], norm * idle) << "the bound is no idle one: " << source << " " << lag;
  }
}

TEST(RoutingForcing, OfAttentionBoundsItsJacobian) {
  for (const bool rotary : {true, false}) {
    CapturedSmallLayer small("attention",
                             {{"d", forced_width}, {"n_heads", 2}, {"n_kv_heads", 1}, {"use_rope", rotary}},
                             forced_tokens, forced_width);
    const std::vector<int> sources{0, 5};
    const auto forcing = find_layer_kind("attention")->readers.forcing(small.captured(), sources);
    ASSERT_EQ(forcing.size(), 2u);
    for (const SourceForcing& of : forcing) {
      const std::vector<double> norms = output_norms(small, of.source);
      EXPECT_NEAR(of.own, norms[static_cast<std::size_t>(of.source)], 1e-6 * of.own) << "exact at the source";
      expect_holds({of.forward.begin() + of.source, of.forward.end()}, norms, of.source, 4);
      expect_holds(diluted_envelope(of), norms, of.source, 40);
    }
  }
}

// Against the block itself and against plain loops over its weights; the bound holds for inputs of any size.
TEST(BlockReach, OfSessaHoldsWithEveryOption) {
  constexpr std::size_t width = forced_width;
  for (const nlohmann::json& config : std::vector<nlohmann::json>{
           {{"D", forced_width}, {"n_heads", 2}, {"n_kv_heads", 1}},
           {{"D", forced_width}, {"n_heads", 1}, {"use_forward_rope", false}, {"use_norm", false}},
           {{"D", forced_width}, {"n_heads", 2}, {"use_feedback", false}}}) {
    CapturedSmallLayer small("sessa", config, forced_tokens, forced_width);
    const BlockReach reach = find_layer_kind("sessa")->readers.reach(small.captured());
    ASSERT_EQ(reach.leaving.size(), static_cast<std::size_t>(forced_tokens));
    ASSERT_FALSE(reach.bounds.empty());
    const std::vector<double> x = small.read.values("layer.input");
    const auto answers = [&](double factor) {
      std::vector<double> scaled = x;
      for (double& value : scaled) value *= factor;
      small.tape.begin(false);
      const Var in = small.tape.constant(to_device(small.tape, {1, forced_tokens, forced_width}, DType::f64, scaled));
      return to_host(*small.backend, small.layer->forward(small.tape, in, {}).value);
    };
    const auto longest = [&](const std::vector<double>& rows) {
      double most = 0;
      for (std::size_t t = 0; t < rows.size(); t += width) {
        double squares = 0;
        for (std::size_t c = 0; c < width; ++c) squares += rows[t + c] * rows[t + c];
        most = std::max(most, std::sqrt(squares));
      }
      return most;
    };
    const std::vector<double> y = answers(1);
    for (std::size_t t = 0; t < reach.leaving.size(); ++t) {
      double out = 0, in = 0;
      for (std::size_t c = 0; c < width; ++c) {
        out += y[t * width + c] * y[t * width + c];
        in += x[t * width + c] * x[t * width + c];
      }
      EXPECT_NEAR(reach.leaving[t], std::sqrt(out), 1e-9);
      EXPECT_NEAR(reach.entering[t], std::sqrt(in), 1e-9);
    }
    EXPECT_NEAR(reach.radii.back(), longest(x), 1e-12);
    for (std::size_t i = 0; i < reach.radii.size(); ++i) {
      const double found = longest(answers(reach.radii[i] / reach.radii.back()));
      EXPECT_LE(found, reach.bounds[i]) << config << " R " << reach.radii[i];
      EXPECT_GT(found, reach.bounds[i] / 400) << "no idle bound";
    }
  }
}

TEST(RoutingForcing, OfSessaBoundsItsJacobianWithEveryOption) {
  for (const nlohmann::json& config : std::vector<nlohmann::json>{
           {{"D", forced_width}, {"n_heads", 2}, {"n_kv_heads", 1}},
           {{"D", forced_width}, {"n_heads", 1}, {"use_forward_rope", false}, {"use_norm", false}},
           {{"D", forced_width}, {"n_heads", 2}, {"use_feedback", false}}}) {
    CapturedSmallLayer small("sessa", config, forced_tokens, forced_width);
    const std::vector<double> gain = small.read.values("layer.gamma"), alpha = small.read.values("layer.alpha_fb");
    const std::vector<int> sources{0, 5};
    const auto forcing = find_layer_kind("sessa")->readers.forcing(small.captured(), sources);
    ASSERT_EQ(forcing.size(), 2u) << config;
    std::vector<double> B(static_cast<std::size_t>(forced_tokens * forced_tokens), 0.0);
    for (std::size_t i = 0; i < alpha.size(); ++i) B[i] = gain[i / forced_tokens] * alpha[i];
    const std::vector<double> R = resolvent(B, forced_tokens);
    double largest_gain = 0;
    for (const double g : gain) largest_gain = std::max(largest_gain, std::abs(g));
    const double mass = alpha.empty() ? 0 : largest_gain * routing_spread(alpha, forced_tokens, true).c2;
    for (const SourceForcing& of : forcing) {
      const std::vector<double> norms = output_norms(small, of.source);
      expect_holds(forced_solve(of, std::vector<float>(R.begin(), R.end())), norms, of.source, 40);
      if (alpha.empty()) continue;
      ASSERT_LT(mass, 1) << "the start's routing is diffuse";
      expect_holds(forced_envelope(of, 1 - mass), norms, of.source, 4000);
    }
  }
}

// A convolution of three tokens, so that the bound begins after the last one that reads the source.
TEST(RoutingForcing, OfMambaTwoBoundsItsJacobianBehindTheConvolution) {
  for (const nlohmann::json& config : std::vector<nlohmann::json>{
           {{"d_model", forced_width}, {"d_state", 5}, {"headdim", 4}, {"d_conv", 3}},
           {{"d_model", forced_width}, {"d_state", 3}, {"headdim", 8}, {"d_conv", 2}, {"rmsnorm", false}},
           {{"d_model", forced_width},
            {"d_state", 4},
            {"headdim", 4},
            {"d_conv", 3},
            {"ngroups", 2},
            {"bias", true},
            {"norm_per_group", true}}}) {
    CapturedSmallLayer small("mamba2", config, forced_tokens, forced_width);
    const std::vector<int> sources{0, 6};
    const auto forcing = find_layer_kind("mamba2")->readers.forcing(small.captured(), sources);
    ASSERT_EQ(forcing.size(), 2u) << config;
    for (const SourceForcing& of : forcing) {
      const std::vector<double> norms = output_norms(small, of.source);
      const int first = of.source + config["d_conv"].get<int>();
      for (int t = of.source; t < forced_tokens; ++t) {
        const auto at = static_cast<std::size_t>(t);
        EXPECT_EQ(std::isinf(of.forward[at]), t < first);
        if (t < first) continue;
        EXPECT_GE(of.outlet * of.forward[at], norms[at] * (1 - 1e-6)) << config << of.source << " " << t;
        EXPECT_LE(of.outlet * of.forward[at], norms[at] * 1e4) << "no idle bound: " << config << t;
      }
    }
  }
}

// Where a model is large, training goes on between them.
TEST(RoutingForcing, OfMambaTwoComesInPieces) {
  CapturedSmallLayer small("mamba2", {{"d_model", forced_width}, {"d_state", 4}, {"headdim", 4}}, forced_tokens,
                           forced_width);
  CapturedLayer layer = small.captured();
  int pieces = 0;
  layer.meanwhile = [&] { ++pieces; };
  const std::vector<int> sources{0, 3, 6};
  const auto forcing = find_layer_kind("mamba2")->readers.forcing(layer, sources);
  ASSERT_EQ(forcing.size(), 3u);
  EXPECT_GT(pieces, 3 * layer.heads());
  const auto at_once = find_layer_kind("mamba2")->readers.forcing(small.captured(), sources);
  for (std::size_t i = 0; i < forcing.size(); ++i) EXPECT_EQ(forcing[i].forward, at_once[i].forward);
}

TEST(RoutingForcing, NeedsItsCaptures) {
  CapturedSmallLayer small("sessa", {{"D", forced_width}, {"n_heads", 1}}, forced_tokens, forced_width);
  small.tape.begin(false);
  const CaptureReader nothing(small.tape, *small.backend);
  const std::vector<int> sources{0};
  EXPECT_TRUE(
      find_layer_kind("sessa")->readers.forcing({*small.layer, nothing, "layer", forced_tokens}, sources).empty());
}

}  // namespace
}  // namespace afterglow
