// Query Jacobians against finite differences, their singular values against plain rotations, and their bounds.
#include "core/analysis/attention/query_jacobian.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/core/analysis/plain_matrix.h"

namespace afterglow {
namespace {

std::optional<AttentionJacobian> attention_query_jacobian(std::span<const double> keys, std::span<const double> values,
                                                          std::span<const double> query, int tokens, double scale) {
  const auto all =
      attention_query_jacobians(keys, values, query, tokens, std::max(1, static_cast<int>(query.size())), scale);
  return all.empty() ? std::nullopt : std::optional(all.front());
}

/// Softmax attention's answer, written out.
PlainMatrix attend(const PlainMatrix& keys, const PlainMatrix& values, const PlainMatrix& query, double scale) {
  PlainMatrix scores = scale * (keys * query), y(values.columns, 1);
  const double top = *std::max_element(scores.values.begin(), scores.values.end());
  double sum = 0;
  for (double& score : scores.values) sum += score = std::exp(score - top);
  for (int s = 0; s < keys.rows; ++s) {
    for (int p = 0; p < values.columns; ++p) y(p, 0) += scores(s, 0) / sum * values(s, p);
  }
  return y;
}

template <class Function>
PlainMatrix finite_differences(const Function& f, const PlainMatrix& x) {
  const double h = 1e-5;
  PlainMatrix J;
  for (int j = 0; j < x.rows; ++j) {
    PlainMatrix up = x, down = x;
    up(j, 0) += h;
    down(j, 0) -= h;
    const PlainMatrix slope = (0.5 / h) * (f(up) - f(down));
    if (j == 0) J = PlainMatrix(slope.rows, x.rows);
    for (int i = 0; i < slope.rows; ++i) J(i, j) = slope(i, 0);
  }
  return J;
}

TEST(AttentionJacobian, IsTheDerivativeAndItsBoundsHold) {
  double tightest = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    const int T = 1 + static_cast<int>(seed % 9), r = 1 + static_cast<int>(seed % 5),
              P = 1 + static_cast<int>(seed % 4);
    const PlainMatrix K = random_matrix(random, T, r), V = random_matrix(random, T, P), q = random_matrix(random, r, 1);
    const double scale = seed % 3 ? 0.5 : 4.0;
    const auto got = attention_query_jacobian(K.values, V.values, q.values, T, scale);
    ASSERT_TRUE(got);
    const PlainMatrix J = finite_differences([&](const PlainMatrix& x) { return attend(K, V, x, scale); }, q);
    const std::vector<double> singular = plain_singular_values(J);
    for (std::size_t i = 0; i < J.values.size(); ++i) EXPECT_NEAR(got->J[i], J.values[i], 2e-7);
    for (std::size_t i = 0; i < singular.size(); ++i) EXPECT_NEAR(got->singular_values[i], singular[i], 2e-7);
    EXPECT_LE(got->rank, got->rank_bound);
    const double norm = got->singular_values[0];
    EXPECT_LE(norm, got->sharp_bound + 1e-12);
    EXPECT_LE(got->sharp_bound, got->bound + 1e-12);
    EXPECT_LE(got->sharp_bound, got->saturation_bound + 1e-12);
    if (T > 1) tightest = std::max(tightest, norm / got->sharp_bound);
  }
  EXPECT_GT(tightest, 0.5);
}

TEST(AttentionJacobian, ItsBoundNeedsNoQuery) {
  Random random(8);
  const PlainMatrix K = random_matrix(random, 7, 3), V = random_matrix(random, 7, 2), q = random_matrix(random, 3, 1);
  const double alone = attention_query_bound(K.values, V.values, 7, 3, 0.5);
  EXPECT_EQ(alone, attention_query_jacobian(K.values, V.values, q.values, 7, 0.5)->bound);
  EXPECT_NEAR(alone, 0.25 * plain_norm(K) * plain_norm(V), 1e-9 * alone);
  EXPECT_TRUE(std::isnan(attention_query_bound({}, {}, 0, 3, 0.5)));
  EXPECT_TRUE(std::isnan(attention_query_bound(K.values, V.values, 7, 4, 0.5)));
}

TEST(AttentionJacobian, TwoOppositeTokensAttainThePapersBound) {
  const std::vector<double> keys = {1, -1}, values = {1, -1}, q = {0};
  const auto even = attention_query_jacobian(keys, values, q, 2, 1.0);
  EXPECT_NEAR(even->singular_values[0], 1.0, 1e-15);
  EXPECT_NEAR(even->bound, 1.0, 1e-14);
  const auto tilted = attention_query_jacobian(keys, values, std::vector<double>{0.7}, 2, 1.0);
  EXPECT_NEAR(tilted->singular_values[0], tilted->sharp_bound, 1e-14);
  EXPECT_LT(tilted->sharp_bound, 0.75 * tilted->bound);
}

TEST(AttentionJacobian, SaturationSuppressesItByAsMuchAsTheBoundSays) {
  const std::vector<double> keys = {1, -1}, values = {1, -1};
  const auto got = attention_query_jacobian(keys, values, std::vector<double>{20}, 2, 1.0);
  const double rest = std::exp(-40.0) / (1 + std::exp(-40.0));
  EXPECT_NEAR(got->singular_values[0] / (4 * rest), 1.0, 1e-12) << "digits survive though m rounds to 1";
  EXPECT_NEAR(got->saturation_bound / (4 * rest), 1.0, 1e-12);
  // The vectorised exponential of some processors ends at the smallest normal number instead of 0.
  EXPECT_LE(attention_query_jacobian(keys, values, std::vector<double>{1000}, 2, 1.0)->singular_values[0],
            std::numeric_limits<double>::min());
}

TEST(AttentionJacobian, EachQueryHasItsOwn) {
  Random random(11);
  const PlainMatrix K = random_matrix(random, 7, 3), V = random_matrix(random, 7, 2), Q = random_matrix(random, 4, 3);
  const auto all = attention_query_jacobians(K.values, V.values, Q.values, 7, 3, 0.5);
  ASSERT_EQ(all.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto alone = attention_query_jacobian(K.values, V.values, std::span(Q.values).subspan(3 * i, 3), 7, 0.5);
    EXPECT_EQ(all[i].J, alone->J);
    EXPECT_EQ(all[i].bound, all[0].bound) << "J.2 does not know the query";
    EXPECT_EQ(all[i].saturation_bound, alone->saturation_bound);
  }
}

TEST(AttentionJacobian, AwkwardInput) {
  const std::vector<double> one = {1.0}, nan = {NAN}, huge = {1e200}, two = {1, 1}, three = {1, 2, 3};
  EXPECT_TRUE(attention_query_jacobians(one, one, one, 1, 0, 1).empty());
  EXPECT_TRUE(attention_query_jacobians(two, one, three, 1, 2, 1).empty()) << "half a query";
  EXPECT_TRUE(attention_query_jacobians(two, one, {}, 1, 2, 1).empty()) << "no query";
  EXPECT_FALSE(attention_query_jacobian({}, {}, {}, 0, 1));
  EXPECT_FALSE(attention_query_jacobian({}, {}, one, 0, 1));
  EXPECT_FALSE(attention_query_jacobian(one, {}, one, 1, 1));
  EXPECT_FALSE(attention_query_jacobian(one, one, one, 2, 1));
  EXPECT_FALSE(attention_query_jacobian(nan, one, one, 1, 1));
  EXPECT_FALSE(attention_query_jacobian(one, nan, one, 1, 1));
  EXPECT_FALSE(attention_query_jacobian(huge, one, huge, 1, 1)) << "the score is not finite";
  const auto single = attention_query_jacobian(one, one, one, 1, 1);
  EXPECT_EQ(single->singular_values[0], 0.0) << "one token gets all the weight, whatever the query";
  EXPECT_EQ(single->rank, 0);
}

TEST(LinearityGap, OfThePapersTwoTokensIsThatOfTheLogisticFunction) {
  // f(q) = 1 / (1 + e^(-2 beta q)), proposition I.13.
  const std::vector<double> keys{1, -1}, values{1, 0}, queries{-0.4, 1.1, 1.2};
  const double beta = 0.8;
  const auto logistic = [&](double q) { return 1 / (1 + std::exp(-2 * beta * q)); };
  const auto softmax = [&](std::span<const double> q) { return attention_answer(keys, values, q, beta); };
  for (const double q : queries) EXPECT_NEAR(softmax(std::vector<double>{q}).front(), logistic(q), 1e-15);
  const double mean = (logistic(-0.4) + logistic(1.1)) / 2;
  EXPECT_NEAR(linearity_gap(softmax, queries, 1), std::abs(logistic(0.35) - mean) / mean, 1e-12);
  const auto affine = [](std::span<const double> q) { return std::vector<double>{3 * q[0] - 2}; };
  EXPECT_NEAR(linearity_gap(affine, queries, 1), 0, 1e-15);
}

TEST(LinearityGap, IsNothingForSkaAndSomethingForSoftmax) {
  Random random(3);
  const RandomHead one(random, 30, 4, 5);
  const SkaOperators operators = ska_operators(one.head);
  const PlainMatrix queries = random_matrix(random, 8, 4);
  const auto ska = [&](std::span<const double> q) { return ska_reading(one.head, operators, q).y; };
  const auto softmax = [&](std::span<const double> q) {
    return attention_answer(one.keys.values, one.values.values, q, 2.0);
  };
  const PlainMatrix q(4, 1, std::span(queries.values).first(4));
  const std::vector<double> answer = softmax(q.values);
  const PlainMatrix expected = attend(one.keys, one.values, q, 2.0);
  for (std::size_t p = 0; p < 5; ++p) EXPECT_NEAR(answer[p], expected.values[p], 1e-13);
  EXPECT_LT(linearity_gap(ska, queries.values, 4), 1e-12);
  EXPECT_GT(linearity_gap(softmax, queries.values, 4), 1e-3);
}

TEST(LinearityGap, AwkwardInput) {
  const std::vector<double> one{1}, two{1, 2}, nan{NAN};
  const auto same = [](std::span<const double> q) { return std::vector<double>(q.begin(), q.end()); };
  const auto silent = [](std::span<const double>) { return std::vector<double>(); };
  const auto zero = [](std::span<const double>) { return std::vector<double>{0}; };
  EXPECT_TRUE(std::isnan(linearity_gap(same, one, 1))) << "one query";
  EXPECT_TRUE(std::isnan(linearity_gap(same, two, 0)));
  EXPECT_TRUE(std::isnan(linearity_gap(silent, two, 1)));
  EXPECT_TRUE(std::isnan(linearity_gap(same, std::vector<double>{1, NAN}, 1)));
  EXPECT_EQ(linearity_gap(zero, two, 1), 0);
  EXPECT_TRUE(attention_answer({}, one, one, 1).empty());
  EXPECT_TRUE(attention_answer(two, one, two, 1).size() == 1u);
  EXPECT_TRUE(attention_answer(one, one, nan, 1).empty());
  EXPECT_TRUE(attention_answer(one, one, two, 1).empty()) << "half a key";
}

TEST(SkaJacobian, IsTheDerivativeAndItsBoundsHoldOnBothSides) {
  double tightest = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    const int r = 1 + static_cast<int>(seed % 6), P = 1 + static_cast<int>(seed % 8);
    RandomHead one(random, 30, r, P);
    one.head.power = static_cast<int>(seed % 4);
    one.head.gamma = 1.25;
    one.head.eta = 1.5;
    one.head.ridge = seed % 2 ? 1e-3 : 0.3;
    const auto got = ska_query_jacobian(one.head);
    ASSERT_TRUE(got);
    const PlainMatrix gram = one.G + one.head.ridge * identity(r), L = cholesky_of(gram), inverse = inverse_of(L);
    const PlainMatrix A = 1.25 * (inverse * one.M * transposed(inverse));
    const PlainMatrix J = 1.5 * (one.C * inverse_of(gram) * L * power_of(A, one.head.power) * inverse);
    const double size = plain_norm(J);
    for (std::size_t i = 0; i < J.values.size(); ++i) EXPECT_NEAR(got->J[i], J.values[i], 1e-7 * size);
    const std::vector<double> singular = plain_singular_values(J);
    for (std::size_t i = 0; i < singular.size(); ++i) EXPECT_NEAR(got->singular_values[i], singular[i], 1e-7 * size);
    EXPECT_LE(got->singular_values.front(), got->sharp_bound * (1 + 1e-9));
    EXPECT_LE(got->sharp_bound, got->bound * (1 + 1e-9));
    EXPECT_NEAR(ska_query_bound(one.head), got->bound, 1e-9 * got->bound) << "the same without the Jacobian";
    if (P >= r) {
      EXPECT_GE(got->singular_values.back(), got->lower_bound * (1 - 1e-9));
      EXPECT_GT(got->lower_bound, 0);
      EXPECT_EQ(got->rank, r) << "J.5";
    } else {
      EXPECT_EQ(got->lower_bound, 0);
      EXPECT_LE(got->rank, P) << "no product of full-rank matrices";
    }
    tightest = std::max(tightest, got->singular_values.front() / got->sharp_bound);
  }
  EXPECT_GT(tightest, 0.5);
}

TEST(SkaJacobian, AnIsotropicHeadAttainsEveryBound) {
  Random random(9);
  const int r = 4;
  const double ridge = 1e-3, gamma = 1.2;
  const PlainMatrix none(r, r), M = ridge * random_orthogonal(random, r), C = 2.0 * random_orthogonal(random, r);
  SkaHead head{.rank = r, .value_width = r, .G = none.values, .M = M.values, .C = C.values, .ridge = ridge};
  head.gamma = gamma;
  const auto got = ska_query_jacobian(head);
  for (const double value : got->singular_values) EXPECT_NEAR(value / (2 / ridge * gamma * gamma), 1.0, 1e-9);
  EXPECT_NEAR(got->bound / got->singular_values[0], 1.0, 1e-9);
  EXPECT_NEAR(got->lower_bound / got->singular_values[0], 1.0, 1e-9);
}

TEST(SkaJacobian, AwkwardInput) {
  EXPECT_FALSE(ska_query_jacobian({}));
  EXPECT_TRUE(std::isnan(ska_query_bound({})));
  const std::vector<double> zero = {0.0}, one = {1.0}, nan = {NAN};
  SkaHead head{.rank = 1, .value_width = 1, .G = zero, .M = zero, .C = one};
  const auto singular = ska_query_jacobian(head);
  ASSERT_TRUE(singular);
  EXPECT_EQ(singular->singular_values[0], 0.0) << "an operator that is zero lets no query through";
  EXPECT_EQ(singular->rank, 0);
  head.power = 0;
  EXPECT_NEAR(ska_query_jacobian(head)->singular_values[0], 1000, 1e-9);
  head.C = nan;
  EXPECT_FALSE(ska_query_jacobian(head));
}

}  // namespace
}  // namespace afterglow
