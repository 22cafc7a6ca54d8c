// Multi-query associative recall: format, every query answered by search, and the power law of the gaps.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "core/io/error.h"
#include "core/tasks/suite.h"
#include "tests/core/tasks/task_support.h"

namespace afterglow {
namespace {

void expect_solved(const Task& task, int pairs, const Example& example) {
  const auto& x = example.tokens;
  const int half = task.vocab() / 2;
  std::map<int, int> where;
  std::set<int> values;
  for (int i = 0; i < pairs; ++i) {
    ASSERT_TRUE(x[2 * i] >= 1 && x[2 * i] < half);
    ASSERT_TRUE(x[2 * i + 1] >= half && x[2 * i + 1] < task.vocab());
    ASSERT_TRUE(where.emplace(x[2 * i], 2 * i).second) << "keys are distinct";
    ASSERT_TRUE(values.insert(x[2 * i + 1]).second) << "values are distinct";
  }
  const std::vector<int> places = answer_places(example);
  ASSERT_EQ(static_cast<int>(places.size()), pairs);
  std::set<int> asked;
  for (const int t : places) {
    ASSERT_GE(t, 2 * pairs);
    ASSERT_EQ(t % 2, 0);
    ASSERT_TRUE(where.count(x[t]));
    ASSERT_EQ(example.targets[static_cast<std::size_t>(t)], x[where[x[t]] + 1]);
    ASSERT_TRUE(asked.insert(x[t]).second) << "every key is asked once";
  }
  const int source = where[x[places.back()]];
  ASSERT_EQ(example.sources, (std::vector<std::int32_t>{source, source + 1}));
  for (int t = 0; t < task.length(); ++t)
    ASSERT_EQ(example.context[static_cast<std::size_t>(t)], t < 2 * pairs                                       ? 1
                                                            : example.targets[static_cast<std::size_t>(t)] >= 0 ? 2
                                                                                                                : 0);
}

TEST(Mqar, EveryQueryIsSolvedBySearch) {
  for (const int length : {32, 37, 63, 64, 65, 101})
    for (const char* fill : {"random", "blank"}) {
      const auto task = task_of(R"({"kind":"mqar","bindings":"1..8","vocab":37,"fill":")" + std::string(fill) +
                                R"(","length":)" + std::to_string(length) + "}");
      for_examples(*task, 32, [&](const Example& example, std::uint64_t index) {
        expect_solved(*task, 1 + static_cast<int>(index % 8), example);
      });
    }
}

// start (k v)^n separator, then each key once after a question mark.
TEST(Mqar, InTheSuitesWordsEveryQueryIsSolvedBySearch) {
  for (const int length : {34, 35, 64, 101}) {
    const auto task =
        task_of(R"({"kind":"mqar","tokens":"suite","bindings":"1..8","length":)" + std::to_string(length) + "}");
    EXPECT_EQ(task->vocab(), suite::vocab);
    for_examples(*task, 32, [&](const Example& example, std::uint64_t index) {
      const auto& x = example.tokens;
      const int pairs = 1 + static_cast<int>(index % 8);
      std::map<int, int> value_of;
      ASSERT_EQ(x[0], suite::start);
      for (int i = 0; i < pairs; ++i) {
        ASSERT_EQ(task->token_role(x[1 + 2 * i]), TokenRole::key);
        ASSERT_EQ(task->token_role(x[2 + 2 * i]), TokenRole::value);
        ASSERT_TRUE(value_of.emplace(x[1 + 2 * i], x[2 + 2 * i]).second) << "keys are distinct";
      }
      ASSERT_EQ(x[1 + 2 * pairs], suite::separator);
      const std::vector<int> places = answer_places(example);
      ASSERT_EQ(static_cast<int>(places.size()), pairs);
      std::set<int> asked;
      for (const int t : places) {
        ASSERT_EQ(x[t - 1], suite::query);
        ASSERT_TRUE(asked.insert(x[t]).second) << "every key is asked once";
        ASSERT_EQ(example.targets[static_cast<std::size_t>(t)], value_of.at(x[t]));
      }
      ASSERT_EQ(x[example.sources[0]], x[places.back()]);
      ASSERT_EQ(x[example.sources[1]], example.targets[static_cast<std::size_t>(places.back())]);
    });
  }
}

// The last two tokens of each pair's worth: no question is nearer to the pairs than the gap.
TEST(Mqar, QuestionsMayAllStandBehindTheGap) {
  for (const char* tokens : {"own", "suite"}) {
    const auto task = task_of(R"({"kind":"mqar","bindings":4,"length":64,"questions":"end","tokens":")" +
                              std::string(tokens) + "\"}");
    std::set<int> first_asked;
    for_examples(*task, 32, [&](const Example& example, std::uint64_t) {
      const std::vector<int> places = answer_places(example);
      ASSERT_EQ(places.size(), 4u);
      for (std::size_t i = 0; i < 4; ++i)
        ASSERT_EQ(places[i], 64 - 8 + static_cast<int>(2 * i) + (std::string(tokens) == "suite"));
      first_asked.insert(example.tokens[static_cast<std::size_t>(places[0])] == example.tokens[1] ? 1 : 0);
    });
    EXPECT_EQ(first_asked.size(), tokens == std::string("own") ? 1u : 2u) << "in random order";
  }
}

TEST(Mqar, TheSuiteHasSoManyTokensAndKeys) {
  EXPECT_THROW(task_of(R"({"kind":"mqar","tokens":"suite","vocab":256})"), Error);
  EXPECT_THROW(task_of(R"({"kind":"mqar","tokens":"suite","bindings":33,"length":256})"), Error);
  EXPECT_THROW(task_of(R"({"kind":"mqar","tokens":"suite","bindings":8,"length":33})"), Error);
}

TEST(Mqar, BlankFillLeavesOnlyPairsAndQueries) {
  const auto task = task_of(R"({"kind":"mqar","bindings":4,"fill":"blank"})");
  for_examples(*task, 16, [&](const Example& example, std::uint64_t) {
    int used = 0;
    for (const int token : example.tokens) used += token != 0;
    ASSERT_EQ(used, 4 * 3);
  });
}

// With one pair the gap is one draw from p(g) ~ g^(a - 1), g = 1 .. slots.
TEST(Mqar, GapsFollowThePowerLaw) {
  for (const double power : {0.01, 0.5, 1.0}) {
    const auto task = task_of(R"({"kind":"mqar","bindings":1,"length":64,"power":)" + std::to_string(power) + "}");
    const int slots = 31, draws = 6000;
    std::vector<int> counts(slots);
    for (std::uint64_t index = 0; index < draws; ++index)
      ++counts[static_cast<std::size_t>((answer_places(task->example(9, index))[0] - 2) / 2)];
    double total = 0, statistic = 0;
    for (int gap = 1; gap <= slots; ++gap) total += std::pow(gap, power - 1);
    for (int gap = 1; gap <= slots; ++gap) {
      const double expected = draws * std::pow(gap, power - 1) / total;
      const double difference = counts[static_cast<std::size_t>(gap - 1)] - expected;
      statistic += difference * difference / expected;
    }
    EXPECT_LT(statistic, (slots - 1) + 5 * std::sqrt(2.0 * (slots - 1))) << "power " << power;
  }
}

// Two draws without replacement: the second follows the law renormalised over what is left.
TEST(Mqar, LaterGapsFollowTheLawOverWhatIsLeft) {
  const auto task = task_of(R"({"kind":"mqar","bindings":2,"length":10,"power":0,"fill":"blank"})");
  const double weights[3] = {1.0, 1.0 / 2, 1.0 / 3}, total = 1.0 + 1.0 / 2 + 1.0 / 3;
  std::map<std::pair<int, int>, int> counts;
  const int draws = 6000;
  for (std::uint64_t index = 0; index < draws; ++index) {
    const Example example = task->example(10, index);
    int gap[2] = {};
    for (const int t : answer_places(example))
      gap[example.tokens[static_cast<std::size_t>(t)] == example.tokens[0] ? 0 : 1] = (t - 4) / 2;
    ++counts[{gap[0], gap[1]}];
  }
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 3; ++b) {
      if (a == b) continue;
      const double p = weights[a] / total * weights[b] / (total - weights[a]);
      EXPECT_NEAR((counts[{a, b}]), draws * p, 5 * std::sqrt(draws * p));
    }
}

TEST(Mqar, RefusesMoreKeysThanTheVocabularyHas) {
  EXPECT_NO_THROW(task_of(R"({"kind":"mqar","bindings":3,"vocab":8})"));
  try {
    task_of(R"({"kind":"mqar","bindings":4,"vocab":8})");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("Make 'vocab' 10 or more"), std::string::npos) << error.what();
  }
}

TEST(Mqar, LabelsHalves) {
  const auto task = task_of(R"({"kind":"mqar","vocab":128})");
  EXPECT_EQ(task->token_label(0), "_");
  EXPECT_EQ(task->token_label(1), "k0");
  EXPECT_EQ(task->token_label(63), "k62");
  EXPECT_EQ(task->token_label(64), "v0");
  EXPECT_EQ(task->token_role(63), TokenRole::key);
  EXPECT_EQ(task->token_role(64), TokenRole::value);
}

}  // namespace
}  // namespace afterglow
