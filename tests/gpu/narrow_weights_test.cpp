// Weights that are stored as bfloat16 are the same numbers: results are those of float32 storage to the bit.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/io/host_tensor.h"
#include "core/models/model.h"
#include "core/tensor/bfloat.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/host_values.h"

namespace afterglow::testing {
namespace {

/// Random numbers that bfloat16 holds, in both forms.
struct RepresentableNumbers {
  RepresentableNumbers(std::int64_t count, std::uint64_t seed) : wide(random_floats(count, seed)) {
    for (float& number : wide) {
      narrow.push_back(to_bfloat(number));
      convert(StoredType::bf16, std::as_bytes(std::span(&narrow.back(), 1)), std::span(&number, 1));
    }
  }
  std::vector<float> wide;
  std::vector<std::uint16_t> narrow;
};

class NarrowWeights : public GpuTest {
 protected:
  /// Gate, up and down matrices side by side in memory, x, and where results go.
  struct Matrices {
    Matrices(Backend& backend, std::int64_t rows, std::int64_t inner, std::int64_t outputs, DType dtype)
        : host(backend) {
      const RepresentableNumbers numbers(2 * inner * outputs, 3);
      all = dtype == DType::bf16 ? host.tensor({2 * outputs, inner}, dtype, numbers.narrow)
                                 : host.f32({2 * outputs, inner}, numbers.wide);
      gate = Tensor(all.data, {outputs, inner}, dtype);
      up = Tensor(all.as<std::byte>() + gate.bytes(), {outputs, inner}, dtype);
      x = host.f32({rows, inner}, random_floats(rows * inner, 1));
      bias = host.f32({outputs}, random_floats(outputs, 5));
      for (Tensor* result : {&g, &u, &h})
        *result = host.f32({rows, outputs}, std::vector<float>(static_cast<std::size_t>(rows * outputs)));
    }
    std::vector<std::vector<float>> read() const {
      return {host.read<float>(g), host.read<float>(u), host.read<float>(h)};
    }
    HostValues host;
    Tensor all, gate, up, x, bias, g, u, h;
  };
};

TEST_F(NarrowWeights, GiveTheSameProjections) {
  for (const std::int64_t rows : {1, 3, 4, 5, 70, 600}) {
    for (const auto& [inner, outputs] : {std::pair<std::int64_t, std::int64_t>{768, 1000}, {40, 33}, {2056, 8}}) {
      for (const bool is_held : {false, true}) {
        std::vector<std::vector<float>> found[2];
        for (const DType dtype : {DType::f32, DType::bf16}) {
          Matrices m(*cuda_, rows, inner, outputs, dtype);
          std::vector<std::vector<float>>& own = found[dtype == DType::bf16 ? 1 : 0];
          if (is_held) cuda_->hold_weights(m.all, {});
          const Tensor both[] = {m.gate, m.up}, biases[] = {m.bias, {}}, results[] = {m.g, m.u};
          cuda_->linear_forward_many(m.x, both, biases, results, {});
          own = m.read();
          cuda_->swiglu_gate_up(m.x, m.gate, m.up, m.g, m.u, m.h);
          for (const std::vector<float>& result : m.read()) own.push_back(result);
          cuda_->gemm(false, true, 1.0, m.x, m.up, 0.0, m.g);
          own.push_back(m.host.read<float>(m.g));
          if (is_held) cuda_->release_weights();
        }
        EXPECT_EQ(found[0], found[1]) << rows << " rows, " << outputs << " x " << inner << (is_held ? ", held" : "");
      }
    }
  }
}

TEST_F(NarrowWeights, GiveTheSameRowsOfTheEmbedding) {
  const RepresentableNumbers numbers(50 * 24, 7);
  HostValues host(*cuda_);
  const Tensor places = host.i32({1, 5}, {3, 49, 0, 3, 12});
  std::vector<float> found[2];
  for (const Tensor& table : {host.f32({50, 24}, numbers.wide), host.tensor({50, 24}, DType::bf16, numbers.narrow)}) {
    const Tensor y = host.f32({1, 5, 24}, std::vector<float>(5 * 24));
    cuda_->gather_rows(places, table, {}, y);
    found[table.dtype == DType::bf16 ? 1 : 0] = host.read<float>(y);
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(found[1][24], numbers.wide[49 * 24]);
}

/// Logits of a whole sequence, then of every token of the recurrent form and of a prompt that is read at once.
std::vector<double> answers_in_storage(Backend& backend, const nlohmann::json& config, bool is_narrow) {
  ParameterStore store;
  Model model(config, store);
  if (is_narrow) store.store_narrow([](const Parameter&) { return true; });
  store.allocate_values(backend, DType::f32);
  for (const Parameter& parameter : store.all()) {
    const RepresentableNumbers numbers(parameter.shape.elements(), static_cast<std::uint64_t>(parameter.index));
    std::vector<double> values(numbers.wide.begin(), numbers.wide.end());
    for (double& value : values) value *= parameter.is_projection ? 0.125 : 0.5;
    store.upload(parameter, values);
  }
  EXPECT_EQ(store.is_narrow(), is_narrow);
  Arena arena(backend);
  Tape tape(backend, arena);
  const HeldWeights held(store);
  std::vector<std::int32_t> ids;
  for (int t = 0; t < 70; ++t) ids.push_back(t * 7 % 31);
  const auto input = [&](std::int64_t first, std::int64_t count) {
    tape.begin(false);
    const Tensor tokens = tape.scratch({1, count}, DType::i32);
    backend.upload(tokens, ids.data() + first);
    return tokens;
  };
  std::vector<double> all;
  const auto keep = [&](const Var& logits) {
    const std::vector<double> numbers = store.download(logits.value);
    all.insert(all.end(), numbers.begin(), numbers.end());
  };
  keep(model.forward(tape, input(0, 70), {}));
  ModelState state = model.make_state(backend, DType::f32, 1);
  for (std::int64_t t = 0; t < 8; ++t) keep(model.step(tape, input(t, 1), state));
  ModelState prompted = model.make_state(backend, DType::f32, 1);
  keep(model.prefill(tape, input(0, 66), {}, prompted, Model::Asked::last_token));
  for (std::int64_t t = 66; t < 70; ++t) keep(model.step(tape, input(t, 1), prompted));
  return all;
}

TEST_F(NarrowWeights, GiveTheSameAnswersOfModels) {
  const auto config = nlohmann::json::parse(R"({"d_model": 64, "vocab": 31, "tie_embedding": true, "blocks": [
      {"mixer": {"kind": "mamba2", "d_state": 16, "expand": 2, "headdim": 32}, "mlp": {"kind": "swiglu", "d_ff": 96}},
      {"mixer": {"kind": "mamba2", "d_state": 16, "expand": 2, "headdim": 32, "in_scales": {"gate": 0.5, "dt": 2}}},
      {"mixer": {"kind": "mamba"}, "mlp": {"kind": "mlp", "d_ff": 96, "activation": "relu2"}},
      {"mixer": {"kind": "gated_deltanet", "H": 2}, "mlp": {"kind": "experts", "d_ff": 32, "experts": 4, "chosen": 2}},
      {"mixer": {"kind": "attention", "n_heads": 4}}]})");
  const std::vector<double> wide = answers_in_storage(*cuda_, config, false),
                            narrow = answers_in_storage(*cuda_, config, true);
  ASSERT_EQ(wide.size(), (70u + 8 + 1 + 4) * 31);
  EXPECT_EQ(narrow, wide);
  // A prompt is answered as within the whole sequence, and so are the tokens behind it.
  for (std::size_t i = 0; i < 5 * 31; ++i) EXPECT_NEAR(wide[78 * 31 + i], wide[65 * 31 + i], 2e-4) << i;
}

TEST_F(NarrowWeights, InBf16AreMultipliedAsTheyAre) {
  cuda_->set_precision(Precision::bf16);
  std::vector<float> found[2];
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Matrices m(*cuda_, 300, 768, 1000, dtype);
    cuda_->linear_forward_many(m.x, {&m.gate, 1}, {}, {&m.g, 1}, {});
    found[dtype == DType::bf16 ? 1 : 0] = m.host.read<float>(m.g);
  }
  cuda_->set_precision(Precision::fp32);
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < found[0].size(); ++i) {
    difference += std::pow(double{found[1][i]} - found[0][i], 2);
    size += std::pow(found[0][i], 2);
  }
  EXPECT_LE(std::sqrt(difference / size), unit_roundoff_of_bf16);
}

// While decoding a projection computes the norm in front of it and the convolution and step sizes behind it: all
// numbers are those of the kernels one by one.
TEST_F(NarrowWeights, ProjectionsComputeWhatIsAroundThem) {
  constexpr std::int64_t inner = 1320, gate = 21, channels = 70, heads = 5, outputs = gate + channels + heads;
  const RepresentableNumbers numbers(outputs * inner, 3);
  for (const int norm : {0, 1, 2, 3}) {  // none, of a row, of a sum, gated
    for (const std::int64_t taps : {2, 3, 4, 7}) {
      for (const std::int64_t batch : {1, 3}) {
        if (norm > 0 && batch > 1) continue;
        std::vector<std::vector<float>> found[2];
        for (const bool at_once : {false, true}) {
          HostValues host(*cuda_);
          const auto random = [&](const Shape& shape, std::uint64_t seed) {
            return host.f32(shape, random_floats(shape.elements(), seed));
          };
          const auto apart = [&] {
            if (!at_once) cuda_->synchronize();
          };
          const Tensor a = random({batch, 1, inner}, 1), b = random({batch, 1, inner}, 2), weight = random({inner}, 4),
                       sum = random({batch, 1, inner}, 5), y = random({batch, 1, inner}, 6), inverse = random({1}, 7),
                       matrix = host.tensor({outputs, inner}, DType::bf16, numbers.narrow), bias = random({outputs}, 8),
                       whole = random({batch, 1, outputs}, 9), taps_weight = random({channels, 1, taps}, 10),
                       taps_bias = random({channels}, 11), steps_bias = random({heads}, 12),
                       history = random({batch, taps - 1, channels}, 13), before = random({batch, 1, channels}, 14),
                       convolved = random({batch, 1, channels}, 15), sizes = random({batch, 1, heads}, 16);
          if (norm == 0) cuda_->copy(y, a);
          if (norm == 1) cuda_->rms_norm({Normed::plain, a, {}, weight, 1e-5, {}, y, inverse, {}});
          if (norm == 2) cuda_->rms_norm({Normed::sum, a, b, weight, 1e-5, sum, y, inverse, {}});
          if (norm == 3) cuda_->rms_norm({Normed::gated, a, b, weight, 1e-5, {}, y, inverse, {}});
          apart();
          const Tensor in = y.reshaped({batch, inner}), result = whole.reshaped({batch, outputs});
          cuda_->linear_forward_many(in, {&matrix, 1}, {&bias, 1}, {&result, 1}, {});
          apart();
          cuda_->conv_with_steps({whole.column_range(gate, channels), taps_weight, taps_bias, before, history},
                                 convolved, {whole.column_range(gate + channels, heads), steps_bias, {0.1, 2.0}},
                                 sizes);
          for (const Tensor& each : {sum, y, inverse, whole, history, before, convolved, sizes})
            found[at_once ? 1 : 0].push_back(host.read<float>(each));
        }
        for (std::size_t i = 0; i < found[0].size(); ++i) {
          for (std::size_t k = 0; k < found[0][i].size(); ++k)
            ASSERT_NEAR(found[0][i][k], found[1][i][k], 1e-5 * (1 + std::abs(found[0][i][k])))
                << "norm " << norm << ", " << taps << " taps, batch " << batch << ", result " << i << ", number " << k;
        }
      }
    }
  }
}

// Convolutions of one token a sequence move their history on in one launch: the same bits as those of whole sequences.
TEST_F(NarrowWeights, ConvolutionsOfOneTokenMoveTheirHistory) {
  for (const std::int64_t taps : {2, 3, 4, 7}) {
    for (const std::int64_t batch : {1, 3, 5}) {
      constexpr std::int64_t channels = 70, tokens = 9;
      HostValues host(*cuda_);
      const std::vector<float> inputs = random_floats(batch * tokens * channels, 1);
      const Tensor whole = host.f32({batch, tokens, channels}, inputs),
                   weight = host.f32({channels, 1, taps}, random_floats(channels * taps, 2)),
                   history = host.f32({batch, taps - 1, channels},
                                      std::vector<float>(static_cast<std::size_t>(batch * (taps - 1) * channels))),
                   y = host.f32({batch, tokens, channels}, inputs), step = host.f32({batch, 1, channels}, inputs);
      cuda_->causal_conv({whole, weight, {}, {}}, {}, y);
      const std::vector<float> want = host.read<float>(y);
      for (std::int64_t t = 0; t < tokens; ++t) {
        for (std::int64_t b = 0; b < batch; ++b) {
          const auto row = [&](const Tensor& of, std::int64_t which) {
            return Tensor(of.as<float>() + which * channels, {1, channels}, DType::f32);
          };
          cuda_->copy(row(step, b), row(whole, b * tokens + t));
        }
        const Tensor out = host.f32({batch, 1, channels}, inputs);
        cuda_->causal_conv({step, weight, {}, {}, history}, {}, out);
        const std::vector<float> got = host.read<float>(out);
        for (std::size_t i = 0; i < got.size(); ++i) {
          const std::size_t b = i / channels, at = (b * tokens + static_cast<std::size_t>(t)) * channels + i % channels;
          ASSERT_EQ(got[i], want[at]) << taps << " taps, batch " << batch << ", token " << t;
        }
      }
    }
  }
}

}  // namespace
}  // namespace afterglow::testing
