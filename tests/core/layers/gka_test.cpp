// Gated KalmaNet: what the paper promises of the system that every token solves, of its gradient, and of the settings.
#include "core/layers/gka.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/analysis/linear_algebra/spectrum.h"
#include "core/layers/layer_kind.h"
#include "core/random/random.h"
#include "tests/support/host_values.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {
namespace {

constexpr std::int64_t tokens = 37, width = 6;
const Shape panel{1, tokens, 1, width}, numbers{1, tokens, 1};

/// One head with unit keys and queries and a gate; the core's answer and its gradients.
class KalmanCore : public ::testing::Test {
 protected:
  KalmanCore() {
    q_ = unit_rows();
    k_ = unit_rows();
    v_ = normal_values(tokens * width);
    for (std::int64_t t = 0; t < tokens; ++t) g_.push_back(-0.2 * random_.uniform());
  }
  Values normal_values(std::int64_t count) {
    Values values(static_cast<std::size_t>(count));
    for (double& value : values) value = random_.normal();
    return values;
  }
  Values unit_rows() {
    Values values = normal_values(tokens * width);
    for (std::int64_t t = 0; t < tokens; ++t) {
      double squares = 0.0;
      for (std::int64_t i = 0; i < width; ++i) squares += values[t * width + i] * values[t * width + i];
      for (std::int64_t i = 0; i < width; ++i) values[t * width + i] /= std::sqrt(squares);
    }
    return values;
  }

  struct Answer {
    Values y, lambda, fro, x;
    std::vector<Values> gradients;  ///< q, k, v, g
  };
  Answer answer(const ChebyshevConfig& config) {
    tape_.begin(true);
    const Var in[] = {tape_.input(host_.f64(panel, q_)), tape_.input(host_.f64(panel, k_)),
                      tape_.input(host_.f64(panel, v_)), tape_.input(host_.f64(numbers, g_))};
    ChebyshevSaved saved;
    const Var y = chebyshev_readout(tape_, config, {in[0], in[1], in[2], in[3], {}}, &saved);
    const auto read = [&](const Tensor& tensor) { return host_.read<double>(tensor); };
    Answer result{read(y.value), read(saved.lambda), read(saved.fro), read(saved.x), {}};
    tape_.backward(y, host_.f64(panel, OpRunner::projection(static_cast<std::size_t>(tokens * width))));
    for (const Var& var : in) result.gradients.push_back(read(tape_.gradient_of(var)));
    return result;
  }

  std::unique_ptr<Backend> backend_ = make_cpu_backend(2);
  HostValues host_{*backend_};
  Arena arena_{*backend_};
  Tape tape_{*backend_, arena_};
  Random random_{11};
  Values q_, k_, v_, g_;
};

// Section 4.1: with lambda = a |H|_F the condition number stays below (a + 1)/a, whatever the keys.
TEST_F(KalmanCore, TheConditionNumberIsBoundedByTheRidgeStrength) {
  for (const double a : {0.005, 0.02, 0.2}) {
    ChebyshevConfig config;
    config.ridge = a;
    const Answer found = answer(config);
    Values H(width * width, 0.0);
    for (std::int64_t t = 0; t < tokens; ++t) {
      double squares = 0.0;
      for (std::int64_t i = 0; i < width; ++i) {
        for (std::int64_t j = 0; j < width; ++j) {
          double& h = H[i * width + j];
          h = std::exp(g_[t]) * h + k_[t * width + i] * k_[t * width + j];
          squares += h * h;
        }
      }
      EXPECT_NEAR(found.fro[t], std::sqrt(squares), 1e-12);
      EXPECT_NEAR(found.lambda[t], a * std::sqrt(squares), 1e-12);
      const SymmetricRange range = symmetric_range(H, width);
      EXPECT_LE((range.largest + found.lambda[t]) / (range.smallest + found.lambda[t]), (a + 1) / a * (1 + 1e-9));
    }
  }
}

// The gradient is that of the exact solution, reached as fast as the iteration itself converges.
TEST_F(KalmanCore, AnswerAndGradientsConvergeToTheExactOnes) {
  ChebyshevConfig config;
  config.ridge = 0.05;
  config.iterations = 400;
  const Answer exact = answer(config);
  const auto errors = [&](int iterations) {
    config.iterations = iterations;
    const Answer found = answer(config);
    Values result{relative_error(found.y, exact.y)};
    for (std::size_t i = 0; i < exact.gradients.size(); ++i)
      result.push_back(relative_error(found.gradients[i], exact.gradients[i]));
    return result;
  };
  const double kappa = (config.ridge + 1) / config.ridge, factor = (std::sqrt(kappa) - 1) / (std::sqrt(kappa) + 1);
  for (const int iterations : {10, 20, 40, 60}) {
    for (const double error : errors(iterations)) EXPECT_LE(error, 40.0 * std::pow(factor, iterations)) << iterations;
  }
  for (const double error : errors(120)) EXPECT_LE(error, 1e-11);
}

TEST_F(KalmanCore, TheChunkLengthChangesRoundingOnly) {
  ChebyshevConfig config;
  const Answer whole = answer(config);
  for (const std::int64_t chunk : {1, 5, 37}) {
    config.chunk = chunk;
    const Answer cut = answer(config);
    EXPECT_LE(relative_error(cut.y, whole.y), 1e-12) << chunk;
    for (std::size_t i = 0; i < whole.gradients.size(); ++i)
      EXPECT_LE(relative_error(cut.gradients[i], whole.gradients[i]), 1e-11) << chunk;
  }
}

TEST_F(KalmanCore, NothingSeenGivesZeroAndFiniteGradients) {
  k_.assign(k_.size(), 0.0);
  const Answer found = answer({});
  EXPECT_THAT(found.y, ::testing::Each(0.0));
  for (const Values& gradient : found.gradients)
    EXPECT_THAT(gradient, ::testing::Each(::testing::Truly([](double value) { return std::isfinite(value); })));
}

class KalmanLayer : public ::testing::Test {
 protected:
  static nlohmann::json config() { return {{"hidden_size", 8}, {"num_heads", 2}, {"head_dim", 4}, {"chunk_size", 8}}; }
  static Values output(Layer& layer, ParameterStore& store, Backend& backend) {
    HostValues host(backend);
    Arena arena(backend);
    Tape tape(backend, arena);
    tape.begin(false);
    Random random(3);
    Values x(20 * 8);
    for (double& value : x) value = random.normal();
    return store.download(layer.forward(tape, tape.constant(host.f64({1, 20, 8}, x)), {}).value);
  }
  /// With the given configuration and then settings.
  static Values answer(const nlohmann::json& config, const std::vector<std::pair<std::string, double>>& settings) {
    const std::unique_ptr<Backend> backend = make_cpu_backend(1);
    ParameterStore store;
    const std::unique_ptr<Layer> layer = make_layer("gka", config, ParameterScope(store, ""));
    store.allocate(*backend, DType::f64);
    store.initialise(5);
    for (const auto& [key, value] : settings) layer->set(key, value);
    return output(*layer, store, *backend);
  }
};

TEST_F(KalmanLayer, SettingsActAsTheConfigurationWould) {
  nlohmann::json other = config();
  other["num_iter"] = 7;
  other["ridge_strength"] = 0.3;
  EXPECT_EQ(answer(config(), {{"r", 7}, {"a", 0.3}}), answer(other, {}));
  EXPECT_GT(relative_error(answer(config(), {{"a", 0.3}}), answer(config(), {})), 1e-3);
}

TEST_F(KalmanLayer, AlphaGoesFromTheQueryToTheSolution) {
  nlohmann::json plain = config();
  plain["num_iter"] = 0;  // x_0 = 2 q / (L + mu): the norm after the readout removes the factor
  plain["norm_eps"] = 0.0;
  nlohmann::json full = plain;
  full["num_iter"] = 30;
  EXPECT_LE(relative_error(answer(full, {{"alpha", 0}}), answer(plain, {{"alpha", 1}})), 1e-9);
  EXPECT_GT(relative_error(answer(full, {{"alpha", 1}}), answer(full, {{"alpha", 0}})), 1e-2);
  EXPECT_EQ(answer(full, {{"alpha", 0}, {"alpha", -1}}), answer(full, {}));
}

TEST_F(KalmanLayer, AFloorOfOneForgetsNothing) {
  nlohmann::json keeps = config();
  keeps["use_forgetting_gate"] = false;
  EXPECT_LE(relative_error(answer(config(), {{"gate_floor", 1}}), answer(keeps, {})), 1e-12);
  EXPECT_GT(relative_error(answer(config(), {}), answer(keeps, {})), 1e-4);
}

TEST_F(KalmanLayer, AFixedLambdaTakesThePlaceOfTheAdaptiveOne) {
  EXPECT_GT(relative_error(answer(config(), {{"lambda", 2}}), answer(config(), {})), 1e-3);
  EXPECT_EQ(answer(config(), {{"lambda", 2}, {"lambda", 0}}), answer(config(), {}));
}

// Appendix H: S^T (H + λI) S z = S^T q, x = S z. Keys of the reader's own system lie in the sketch's subspace.
TEST(GkaSketch, SolvesTheProjectedSystemAndWritesBackItsSolution) {
  constexpr std::int64_t hidden = 12, length = 20, head = 6, kept = 2;
  const auto backend = make_cpu_backend(1);
  HostValues host(*backend);
  Arena arena(*backend);
  Tape tape(*backend, arena);
  ParameterStore store;
  const nlohmann::json config{{"hidden_size", hidden}, {"head_dim", head},      {"num_heads", 1},
                              {"sketch", kept},        {"num_iter", 400},       {"use_forgetting_gate", false},
                              {"fixed_lambda", 0.3},   {"use_beta_gate", false}};
  const auto layer = make_layer("gka", config, ParameterScope(store, ""));
  store.allocate(*backend, DType::f64);
  store.initialise(3);
  Random random(5);
  Values x(static_cast<std::size_t>(length * hidden));
  for (double& value : x) value = random.normal();
  tape.begin(true);
  const Capturing capturing(tape);
  const Var y = layer->forward(tape, tape.input(host.f64({1, length, hidden}, x)), {});
  std::map<std::string, Values> captured;
  for (const Capture& capture : tape.captures()) captured[capture.name] = host.read<double>(capture.value);
  const Values P = host.read<double>(store.find("sketch")->value), &k = captured["keys"], &q = captured["queries"],
               &solution = captured["xhat"];
  double trace = 0;
  for (std::int64_t i = 0; i < head; ++i) trace += P[i * head + i];
  EXPECT_NEAR(trace, kept, 1e-12) << "a projection onto two dimensions";
  const auto projected = [&](const double* v) {
    Values result(head, 0.0);
    for (std::int64_t i = 0; i < head; ++i) {
      for (std::int64_t j = 0; j < head; ++j) result[i] += P[i * head + j] * v[j];
    }
    return result;
  };
  for (const std::int64_t t : {0L, 7L, length - 1}) {
    const double* z = solution.data() + t * head;
    const Values again = projected(z);
    Values left(head, 0.0);
    for (std::int64_t i = 0; i < head; ++i) {
      EXPECT_NEAR(again[i], z[i], 1e-9) << "the solution lies in the subspace";
      left[i] = 0.3 * z[i];
      for (std::int64_t s = 0; s <= t; ++s) {
        double read = 0;
        for (std::int64_t j = 0; j < head; ++j) read += k[s * head + j] * z[j];
        left[i] += k[s * head + i] * read;
      }
      EXPECT_NEAR(left[i], q[t * head + i], 1e-8) << t;
    }
  }
  tape.backward(y, host.f64({1, length, hidden}, OpRunner::projection(x.size())));
  for (const double g : host.read<double>(store.find("sketch")->gradient))
    EXPECT_EQ(g, 0) << "it stays as it was drawn";
  EXPECT_FALSE(store.find("sketch")->decay);
}

}  // namespace
}  // namespace afterglow::testing
