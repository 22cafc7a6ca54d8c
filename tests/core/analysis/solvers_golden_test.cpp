// Solvers against residuals that were computed independently of this project: the golden files of Gated KalmaNet.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/analysis/solvers/solvers.h"
#include "core/io/safetensors.h"
#include "tests/core/analysis/plain_matrix.h"
#include "tests/support/folders.h"

namespace afterglow {
namespace {

/// Keys, queries and gates of one golden file, from its input and parameters.
class GoldenKalman {
 public:
  explicit GoldenKalman(const std::string& name)
      : file_(read_safetensors(golden_folder() / (name + ".safetensors"))),
        config_(nlohmann::json::parse(file_.metadata.at("config"))),
        d_(config_["hidden_size"]),
        width_(config_["head_dim"]),
        heads_(config_["num_heads"]) {
    const auto shape = require_tensor(file_, "x", name).shape;
    batch_ = static_cast<int>(shape[0]);
    tokens_ = static_cast<int>(shape[1]);
  }
  int batch() const { return batch_; }
  int heads() const { return heads_; }
  int tokens() const { return tokens_; }
  int width() const { return width_; }
  int iterations() const { return config_["num_iter"]; }
  bool gives(const std::string& flag) const { return config_[flag]; }
  double tolerance() const { return std::stod(file_.metadata.at("tolerance")); }
  double strength() const { return config_["ridge_strength"]; }
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }

  std::vector<double> numbers(const std::string& name) const {
    return to_doubles(require_tensor(file_, name, "golden file"));
  }

  /// The problems (H_t + λ_t I) x = q_t of one head, one for each token.
  std::vector<RidgeProblem> problems(int b, int head) const {
    const std::vector<double> keys = normalised("k", b, head), queries = normalised("q", b, head);
    const std::vector<double> decay = log_decay(b, head), weight = key_weight(b, head);
    std::vector<double> H(static_cast<std::size_t>(width_ * width_), 0.0);
    std::vector<RidgeProblem> list;
    for (int t = 0; t < tokens_; ++t) {
      const double* k = keys.data() + t * width_;
      const double w = weight[static_cast<std::size_t>(t)];
      for (int i = 0; i < width_ * width_; ++i) {
        double& cell = H[static_cast<std::size_t>(i)];
        cell = std::exp(decay[static_cast<std::size_t>(t)]) * cell + w * w * k[i / width_] * k[i % width_];
      }
      const double* q = queries.data() + t * width_;
      list.push_back(bounded_problem(H, {q, q + width_}, strength() * frobenius_norm(H)));
    }
    return list;
  }

 private:
  PlainMatrix input(int b) const {
    const std::vector<double> x = numbers("x");
    return {tokens_, d_,
            std::span<const double>(x).subspan(static_cast<std::size_t>(b * tokens_ * d_),
                                               static_cast<std::size_t>(tokens_ * d_))};
  }
  std::vector<double> head_numbers(const std::string& projection, int b, int head) const {
    const PlainMatrix x = input(b);
    const std::vector<double> weight = numbers("param." + projection + ".weight");
    const bool has_bias = has("param." + projection + ".bias");
    std::vector<double> result;
    for (int t = 0; t < tokens_; ++t) {
      double sum = has_bias ? numbers("param." + projection + ".bias")[static_cast<std::size_t>(head)] : 0;
      for (int j = 0; j < d_; ++j) sum += weight[static_cast<std::size_t>(head * d_ + j)] * x(t, j);
      result.push_back(sum);
    }
    return result;
  }
  /// Projection, causal convolution, SiLU, division by the norm, of one head: [T, width].
  std::vector<double> normalised(const std::string& which, int b, int head) const {
    const PlainMatrix x = input(b);
    const std::vector<double> weight = numbers("param." + which + "_proj.weight");
    const std::vector<double> taps = numbers("param." + which + "_conv1d.weight");
    const int size = config_["conv_size"];
    PlainMatrix projected(tokens_, width_);
    for (int t = 0; t < tokens_; ++t) {
      for (int c = 0; c < width_; ++c) {
        for (int j = 0; j < d_; ++j)
          projected(t, c) += weight[static_cast<std::size_t>((head * width_ + c) * d_ + j)] * x(t, j);
      }
    }
    std::vector<double> result;
    for (int t = 0; t < tokens_; ++t) {
      std::vector<double> row;
      for (int c = 0; c < width_; ++c) {
        double sum = 0;
        for (int tap = 0; tap < size; ++tap) {
          const int from = t - size + 1 + tap;
          if (from >= 0) sum += taps[static_cast<std::size_t>((head * width_ + c) * size + tap)] * projected(from, c);
        }
        row.push_back(sum / (1 + std::exp(-sum)));
      }
      const double norm = length_of(row) + 1e-6;
      for (const double value : row) result.push_back(value / norm);
    }
    return result;
  }
  std::vector<double> log_decay(int b, int head) const {
    std::vector<double> g(static_cast<std::size_t>(tokens_), 0.0);
    if (!gives("use_forgetting_gate") || !gives("use_forgetting_gate_kk")) return g;
    const std::vector<double> a = head_numbers("a_proj", b, head);
    const auto at = static_cast<std::size_t>(head);
    for (std::size_t t = 0; t < g.size(); ++t)
      g[t] = -std::exp(numbers("param.A_log")[at]) * std::log1p(std::exp(a[t] + numbers("param.dt_bias")[at]));
    return g;
  }
  std::vector<double> key_weight(int b, int head) const {
    if (!gives("use_beta_gate")) return std::vector<double>(static_cast<std::size_t>(tokens_), 1.0);
    std::vector<double> beta = head_numbers("b_proj", b, head);
    for (double& value : beta) value = 1 / (1 + std::exp(-value)) + 1e-6;
    return beta;
  }

  TensorFile file_;
  nlohmann::json config_;
  int d_, width_, heads_, batch_ = 0, tokens_ = 0;
};

class GoldenSolvers : public testing::TestWithParam<const char*> {};

TEST_P(GoldenSolvers, HaveTheSameResiduals) {
  const GoldenKalman golden(GetParam());
  const std::vector<RidgeProblem> problems = golden.problems(0, 0);
  const std::pair<const char*, SolverKind> captures[] = {{"probe.residual_cheb", SolverKind::chebyshev},
                                                         {"probe.residual_gd", SolverKind::gradient_descent},
                                                         {"probe.residual_agd", SolverKind::nesterov},
                                                         {"probe.residual_cg", SolverKind::conjugate_gradient}};
  for (const auto& [name, kind] : captures) {
    const std::vector<double> expected = golden.numbers(name);
    const auto columns = static_cast<std::size_t>(golden.iterations() + 1);
    ASSERT_EQ(expected.size(), columns * problems.size());
    double rest = 0;
    for (std::size_t t = 0; t < problems.size(); ++t) {
      const SolverRun run = run_solver(kind, problems[t], golden.iterations(), Arithmetic::fp64);
      for (std::size_t i = 0; i < columns; ++i) rest += std::pow(run.residuals[i] - expected[t * columns + i], 2);
    }
    // Conjugate gradient enlarges rounding where it is about to end; all others repeat the file to the last digits.
    EXPECT_LT(std::sqrt(rest) / length_of(expected),
              kind == SolverKind::conjugate_gradient ? golden.tolerance() : 1e-13)
        << name;
  }
}

TEST_P(GoldenSolvers, HaveTheSameSolutionsRidgesAndConditionNumbers) {
  const GoldenKalman golden(GetParam());
  const std::vector<double> xhat = golden.numbers("probe.xhat"), lambda = golden.numbers("probe.lambda"),
                            kappa = golden.numbers("probe.kappa");
  const int T = golden.tokens(), H = golden.heads(), width = golden.width();
  for (int b = 0; b < golden.batch(); ++b) {
    for (int h = 0; h < H; ++h) {
      const std::vector<RidgeProblem> problems = golden.problems(b, h);
      for (int t = 0; t < T; ++t) {
        const RidgeProblem& problem = problems[static_cast<std::size_t>(t)];
        const auto place = static_cast<std::size_t>((b * T + t) * H + h);
        EXPECT_NEAR(problem.ridge, lambda[place], 1e-12);
        const std::vector<double> values = ridge_eigenvalues(problem);
        EXPECT_NEAR(values.back() / values.front(), kappa[place], 1e-9 * kappa[place]);
        const SolverRun run = run_solver(SolverKind::chebyshev, problem, golden.iterations(), Arithmetic::fp64);
        for (int i = 0; i < width; ++i)
          EXPECT_NEAR(run.solution[static_cast<std::size_t>(i)],
                      xhat[place * static_cast<std::size_t>(width) + static_cast<std::size_t>(i)], 1e-10);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenSolvers,
                         testing::Values("gka_tiny", "gka_medium", "gka_bare", "gka_five_iterations",
                                         "gka_kv_decay_only", "gka_no_beta", "gka_no_forget", "gka_strong_ridge"));

}  // namespace
}  // namespace afterglow
