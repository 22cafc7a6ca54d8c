// Token weights of SKA against outputs that were computed independently of this project: the golden files of the layer.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/analysis/attention/token_weights.h"
#include "core/io/safetensors.h"
#include "tests/core/analysis/plain_matrix.h"
#include "tests/support/folders.h"

namespace afterglow {
namespace {

/// One golden file of an SKA layer, with what token weights need of it.
class GoldenSka {
 public:
  explicit GoldenSka(const std::string& name)
      : file_(read_safetensors(golden_folder() / (name + ".safetensors"))),
        config_(nlohmann::json::parse(file_.metadata.at("config"))) {
    const auto shape = require_tensor(file_, "x", name).shape;
    batch_ = static_cast<int>(shape[0]);
    tokens_ = static_cast<int>(shape[1]);
    d_ = static_cast<int>(shape[2]);
  }

  /// Largest difference between y and o_proj(eta sum_s w_s v_s), over the largest |y|.
  double max_relative_error() {
    const std::vector<double> expected = numbers("y");
    double largest = 0, size = 0;
    for (int b = 0; b < batch_; ++b) {
      const PlainMatrix y = output(b);
      for (std::size_t i = 0; i < y.values.size(); ++i) {
        const double truth = expected[static_cast<std::size_t>(b) * y.values.size() + i];
        largest = std::max(largest, std::abs(y.values[i] - truth));
        size = std::max(size, std::abs(truth));
      }
    }
    return largest / size;
  }

 private:
  std::vector<double> numbers(const std::string& name) const {
    return to_doubles(require_tensor(file_, name, "golden file"));
  }
  /// Part `index` of an inspected sequence that has `parts` of them: the groups of one batch entry and head.
  std::vector<double> part(const std::string& name, int index, int parts) const {
    const std::vector<double> all = numbers(name);
    const std::size_t size = all.size() / static_cast<std::size_t>(parts);
    return {all.begin() + static_cast<std::ptrdiff_t>(index * size),
            all.begin() + static_cast<std::ptrdiff_t>((index + 1) * size)};
  }
  /// x W^T of one head, [T, width].
  PlainMatrix projected(const PlainMatrix& x, const std::string& weight, int head, int width) const {
    const std::vector<double> W = numbers(weight);
    const std::size_t size = static_cast<std::size_t>(width) * d_;
    return x * transposed(PlainMatrix(width, d_, std::span(W).subspan(head * size, size)));
  }
  std::vector<std::uint8_t> mask_of(int b) const {
    const HostTensor* mask = file_.find("mask");
    std::vector<std::uint8_t> result;
    if (!mask || config_.at("mode") != "masked") return result;
    const std::size_t width = mask->bytes.size() / static_cast<std::size_t>(batch_ * tokens_);
    for (int t = 0; t < tokens_; ++t) {
      const std::size_t at = static_cast<std::size_t>(b * tokens_ + t) * width;
      bool set = false;
      for (std::size_t i = 0; i < width; ++i) set = set || mask->bytes[at + i] != std::byte{0};
      result.push_back(set);
    }
    return result;
  }
  PlainMatrix output(int b) const {
    const int H = config_.at("H"), r = config_.at("r"), P = config_.at("P");
    const std::string mode = config_.at("mode");
    const std::vector<double> all_x = numbers("x"), eta = numbers("param.eta"), raw = numbers("param.gamma_raw");
    const std::size_t size = static_cast<std::size_t>(tokens_) * d_;
    const PlainMatrix x(tokens_, d_, std::span(all_x).subspan(b * size, size));
    PlainMatrix joined(tokens_, H * P);
    for (int h = 0; h < H; ++h) {
      const PlainMatrix keys = projected(x, "param.k_proj.weight", h, r);
      const PlainMatrix queries = projected(x, "param.q_proj.weight", h, r);
      const PlainMatrix values = projected(x, "param.v_proj.weight", h, P);
      const int index = b * H + h, parts = batch_ * H;
      const auto L = part("probe.L", index, parts), A_w = part("probe.A_w", index, parts);
      const auto m = part("probe.m", index, parts), sigma = part("probe.sigma", index, parts);
      const std::vector<std::uint8_t> mask = mask_of(b);
      SkaTokens head{.tokens = tokens_,
                     .rank = r,
                     .piece = tokens_,
                     .keys = keys.values,
                     .queries = queries.values,
                     .L = L,
                     .A_w = A_w,
                     .m = m,
                     .sigma = sigma,
                     .mask = mask};
      if (mode == "chunk") head.piece = config_.at("chunk");
      if (mode == "recurrent") head.piece = 1;
      head.exclusive = mode == "chunk";
      head.gamma = 1 + 0.5 / (1 + std::exp(-raw[static_cast<std::size_t>(h)]));
      head.power = config_.at("K");
      const WeightMatrix weights = ska_token_weights(head);
      EXPECT_FALSE(weights.empty());
      if (weights.empty()) return joined;
      const PlainMatrix y = eta[static_cast<std::size_t>(h)] * (PlainMatrix(tokens_, tokens_, weights) * values);
      for (int t = 0; t < tokens_; ++t) {
        for (int p = 0; p < P; ++p) joined(t, h * P + p) = y(t, p);
      }
    }
    return joined * transposed(PlainMatrix(d_, H * P, numbers("param.o_proj.weight")));
  }

  TensorFile file_;
  nlohmann::json config_;
  int batch_ = 0, tokens_ = 0, d_ = 0;
};

class TokenWeightsGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(TokenWeightsGolden, GiveTheLayersOutput) {
  // Operators are in the files as float64, y as float32.
  EXPECT_LT(GoldenSka(GetParam()).max_relative_error(), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Files, TokenWeightsGolden,
                         ::testing::Values("ska_prefix_tiny", "ska_prefix_medium", "ska_k0", "ska_k4",
                                           "ska_masked_tiny", "ska_masked_medium", "ska_chunk_tiny",
                                           "ska_chunk_k4_ragged", "ska_chunk_prefix_norm", "ska_recurrent_tiny"),
                         [](const auto& file) { return std::string(file.param); });

}  // namespace
}  // namespace afterglow
