// The network of theorem 12 against plain loops over its lemmas.
#include "core/engine/analyses/retrieval/retrieval_experiment.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/io/error.h"

namespace afterglow {
namespace {

using Matrix = std::vector<std::vector<double>>;

std::shared_ptr<const RetrievalView> measured(const char* config) {
  RetrievalExperiment experiment(parse_retrieval(nlohmann::json::parse(config), {}));
  EXPECT_FALSE(experiment.view());
  while (experiment.advance()) {
  }
  EXPECT_FALSE(experiment.advance()) << "it is made once";
  return experiment.view();
}

Matrix zeros(int n) { return Matrix(static_cast<std::size_t>(n), std::vector<double>(static_cast<std::size_t>(n))); }

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c = zeros(static_cast<int>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = 0; k <= i; ++k) {
      for (std::size_t j = 0; j <= k; ++j) c[i][j] += a[i][k] * b[k][j];
    }
  }
  return c;
}

/// (I - B)^-1 of the uniform feedback with this gain.
Matrix uniform_resolvent(int n, double gain) {
  Matrix r = zeros(n);
  for (int t = 0; t < n; ++t) {
    for (int j = 0; j < t; ++j) {
      for (int i = 0; i <= j; ++i) r[t][i] += gain / t * r[j][i];
    }
    r[t][t] = 1;
  }
  return r;
}

/// Corollary K.21 as sums: an impulse at 0 through the uniform feedback, on top of itself, then a damped running sum.
std::vector<double> profile_of(int n, double beta) {
  const Matrix r = uniform_resolvent(n, 1 - beta);
  std::vector<double> profile;
  double sum = 0;
  for (int t = 0; t < n; ++t) {
    sum = (1 - 1.0 / n) * sum + r[t][0] + (t == 0 ? 1 : 0);
    profile.push_back(sum);
  }
  return profile;
}

/// Lemma K.22 as matrices: I + R A diag(profile), A the mean over the prefix; with the selector's gains in front.
Matrix kernel_of(int n, double beta, int jumps, int source, double leak) {
  const std::vector<double> profile = profile_of(n, beta);
  Matrix mean = zeros(n);
  for (int t = 0; t < n; ++t) {
    for (int j = 0; j <= t; ++j) mean[t][j] = profile[static_cast<std::size_t>(j)] / (t + 1);
  }
  Matrix layer = product(uniform_resolvent(n, 1 - beta), mean), kernel = zeros(n);
  for (int t = 0; t < n; ++t) layer[t][t] += 1;
  for (int t = 0; t < n; ++t) kernel[t][t] = t == source ? 1 : leak;
  for (int jump = 0; jump < jumps; ++jump) kernel = product(layer, kernel);
  return kernel;
}

TEST(Retrieval, TheNetworkHasTheKernelOfItsLemmas) {
  for (const auto& [jumps, beta, source, leak] :
       {std::tuple{1, 0.5, 0, 0.0}, std::tuple{2, 0.5, 4, 0.0}, std::tuple{3, 0.35, 9, 0.02}}) {
    nlohmann::json config{{"tokens", 96}, {"jumps", jumps}, {"beta", beta}, {"source", source}, {"leak", leak}};
    const auto view = measured(config.dump().c_str());
    ASSERT_EQ(view->roles.size(), 11u + 2 * static_cast<std::size_t>(jumps));
    const Matrix kernel = kernel_of(96, beta, jumps, source, leak);
    const std::vector<double> profile = profile_of(96, beta);
    for (std::size_t t = 0; t < 96; ++t) EXPECT_NEAR(view->profile[t], profile[t], 1e-8 * profile[t]) << t;
    for (std::size_t i = 0; i < view->lags.size(); ++i) {
      const auto t = static_cast<std::size_t>(source + view->lags[i]);
      double others = 0;
      for (std::size_t tau = 0; tau < t; ++tau) others += static_cast<int>(tau) == source ? 0 : kernel[t][tau];
      EXPECT_NEAR(view->scores[i], kernel[t][static_cast<std::size_t>(source)], 1e-7 * view->scores[i]) << t;
      EXPECT_NEAR(view->competitors[i], others, 1e-7 * (others + view->scores[i])) << t;
    }
  }
}

TEST(Retrieval, DecaysStaysAndGrowsAsTheTheoremSays) {
  const auto one = measured(R"({"jumps": 1, "leak": 0})"), two = measured(R"({"jumps": 2, "leak": 0})"),
             three = measured(R"({"jumps": 3, "leak": 0})");
  EXPECT_EQ(one->theory, -0.5);
  EXPECT_EQ(two->theory, 0);
  EXPECT_EQ(three->theory, 0.5);
  EXPECT_LT(one->fit.power.slope_high, 0);
  EXPECT_GT(three->fit.power.slope_low, 0.3);
  for (const auto& view : {one, two, three}) {
    EXPECT_GT(view->low, 0);
    EXPECT_LT(view->high / view->low, 8) << view->jumps << ": the constants of definition 5 stay near each other";
    for (std::size_t i = 0; i < view->lags.size(); ++i)
      EXPECT_LT(view->competitors[i], 1e-6 * view->scores[i]) << "a margin at lag " << view->lags[i];
  }
}

TEST(Retrieval, ALeakingSelectorLosesItsMargin) {
  const auto sharp = measured(R"({"tokens": 64, "leak": 0})"), leaking = measured(R"({"tokens": 64, "leak": 0.2})");
  EXPECT_EQ(sharp->lags, leaking->lags);
  EXPECT_NEAR(sharp->scores.back(), leaking->scores.back(), 1e-9 * sharp->scores.back()) << "the source is untouched";
  EXPECT_GT(leaking->competitors.back(), leaking->scores.back());
}

TEST(Retrieval, DiffuseAttentionAndFailedFreezeAreTheirClosedForms) {
  const auto view = measured(R"({"tokens": 64, "jumps": 1, "source": 4, "freeze_step": 0.3})");
  ASSERT_EQ(view->others.size(), 4u);
  EXPECT_EQ(view->others[0].blocks, 1);
  EXPECT_EQ(view->others[2].blocks, 13);
  for (std::size_t i = 0; i < view->lags.size(); ++i) {
    EXPECT_NEAR(view->others[0].scores[i], 1 / (4 + view->lags[i] + 1), 1e-12);
    EXPECT_NEAR(view->others[1].scores[i], -std::expm1(-0.3) * std::exp(-0.3 * view->lags[i]), 1e-12);
  }
}

TEST(Retrieval, TheCopyBlocksOfTheorem14CopyEveryLag) {
  for (const char* config : {R"({"tokens": 64})", R"({"tokens": 512})"}) {
    const auto view = measured(config);
    ASSERT_EQ(view->copy_errors.size(), 7u);
    for (const double error : view->copy_errors) EXPECT_LT(error, 1e-12) << "of a signal of size 1";
  }
}

TEST(Retrieval, SaysWhatIsWrong) {
  for (const char* text :
       {R"({"beta": 1.2})", R"({"jumps": 0})", R"({"tokens": 4})", R"({"leak": -1})", R"({"gain": 1})"})
    EXPECT_THROW(parse_retrieval(nlohmann::json::parse(text), {}), Error) << text;
}

}  // namespace
}  // namespace afterglow
