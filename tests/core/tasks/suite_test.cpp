// The transfer suite: every sequence is decoded by a solver that knows only the published format, and answered by
// search.
#include "core/tasks/suite.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/io/error.h"
#include "tests/core/tasks/task_support.h"

namespace afterglow {
namespace {

// What all five share: only the last position is answered, with a value; the context is what `facts` marks.
void expect_one_answer(const Task& task, const Example& example) {
  ASSERT_EQ(static_cast<int>(example.tokens.size()), task.length());
  ASSERT_EQ(answer_places(example), std::vector<int>{task.length() - 1});
  ASSERT_TRUE(is_value(example.targets.back()));
}

void expect_context(const Example& example, const std::set<int>& facts) {
  for (int t = 0; t < static_cast<int>(example.context.size()); ++t)
    ASSERT_EQ(example.context[static_cast<std::size_t>(t)] == 1, facts.count(t) == 1) << "at " << t;
}

TEST(SystemPrompt, IsSolvedBySearch) {
  for (const int length : {37, 63, 64, 65, 101}) {
    const auto task = task_of(R"({"kind":"sysprompt","bindings":"1..8","length":)" + std::to_string(length) + "}");
    for_examples(*task, 64, [&](const Example& example, std::uint64_t index) {
      expect_one_answer(*task, example);
      const auto& x = example.tokens;
      const int bindings = 1 + static_cast<int>(index % 8);
      ASSERT_EQ(x[0], 1);
      std::map<int, int> where;
      std::set<int> facts;
      for (int i = 0; i < bindings; ++i) {
        ASSERT_TRUE(is_key(x[1 + 2 * i]) && is_value(x[2 + 2 * i]));
        ASSERT_TRUE(where.emplace(x[1 + 2 * i], 1 + 2 * i).second) << "keys are distinct";
        facts.insert({1 + 2 * i, 2 + 2 * i});
      }
      ASSERT_EQ(x[1 + 2 * bindings], 2);
      for (int t = 2 + 2 * bindings; t < length - 2; ++t) ASSERT_TRUE(is_filler(x[t]));
      ASSERT_EQ(x[length - 2], 3);
      ASSERT_TRUE(where.count(x[length - 1]));
      const int place = where[x[length - 1]];
      ASSERT_EQ(example.targets.back(), x[place + 1]);
      ASSERT_EQ(example.sources, (std::vector<std::int32_t>{place, place + 1}));
      expect_context(example, facts);
    });
  }
}

TEST(ToolTrace, IsSolvedBySearch) {
  for (const int length : {38, 63, 101}) {
    const auto task = task_of(R"({"kind":"tooltrace","bindings":[8,1,3],"length":)" + std::to_string(length) + "}");
    for_examples(*task, 48, [&](const Example& example, std::uint64_t index) {
      expect_one_answer(*task, example);
      const auto& x = example.tokens;
      const int calls = std::vector<int>{8, 1, 3}[index % 3];
      ASSERT_EQ(x[0], 1);
      std::map<std::pair<int, int>, int> where;
      std::set<int> facts;
      for (int i = 0; i < calls; ++i) {
        const int t = 1 + 4 * i;
        ASSERT_TRUE(x[t] >= 16 && x[t] < 24 && x[t + 1] >= 24 && x[t + 1] < 32);
        ASSERT_EQ(x[t + 2], 4);
        ASSERT_TRUE(is_value(x[t + 3]));
        ASSERT_TRUE((where.emplace(std::pair(x[t], x[t + 1]), t).second)) << "pairs are distinct";
        facts.insert({t, t + 1, t + 2, t + 3});
      }
      ASSERT_EQ(x[1 + 4 * calls], 2);
      for (int t = 2 + 4 * calls; t < length - 4; ++t) ASSERT_TRUE(is_filler(x[t]));
      ASSERT_EQ(x[length - 4], 3);
      ASSERT_EQ(x[length - 1], 5);
      const auto found = where.find({x[length - 3], x[length - 2]});
      ASSERT_NE(found, where.end());
      ASSERT_EQ(example.targets.back(), x[found->second + 3]);
      ASSERT_EQ(example.sources, (std::vector<std::int32_t>{found->second, found->second + 1, found->second + 3}));
      expect_context(example, facts);
    });
  }
}

// Pairs (key, key or value) at odd positions, i.e. at even offsets after the start; the rest is filler.
std::map<int, int> pair_places(const Task& task, const Example& example, int mark = suite::query) {
  std::map<int, int> where;
  std::set<int> facts;
  const auto& x = example.tokens;
  EXPECT_EQ(x[0], 1);
  for (int t = 1; t < task.length() - 2; ++t) {
    if (!is_key(x[t])) {
      EXPECT_TRUE(is_filler(x[t])) << "at " << t;
      continue;
    }
    EXPECT_EQ(t % 2, 1);
    EXPECT_TRUE(is_key(x[t + 1]) || is_value(x[t + 1]));
    EXPECT_TRUE(where.emplace(x[t], t).second) << "keys are distinct";
    facts.insert({t, t + 1});
    ++t;
  }
  EXPECT_EQ(x[task.length() - 2], mark);
  expect_context(example, facts);
  return where;
}

TEST(Needle, IsSolvedBySearch) {
  for (const int length : {19, 37, 64, 101}) {
    const auto task = task_of(R"({"kind":"niah","bindings":"1..8","length":)" + std::to_string(length) + "}");
    for_examples(*task, 64, [&](const Example& example, std::uint64_t index) {
      expect_one_answer(*task, example);
      std::map<int, int> where = pair_places(*task, example);
      ASSERT_EQ(where.size(), 1 + index % 8);
      ASSERT_TRUE(where.count(example.tokens.back()));
      const int place = where[example.tokens.back()];
      ASSERT_EQ(example.targets.back(), example.tokens[static_cast<std::size_t>(place + 1)]);
      ASSERT_EQ(example.sources, (std::vector<std::int32_t>{place, place + 1}));
    });
  }
}

TEST(Needle, LiesEverywhereEquallyOften) {
  const auto task = task_of(R"({"kind":"niah","bindings":1,"length":65})");
  std::vector<int> counts(31);
  for (std::uint64_t index = 0; index < 3100; ++index)
    ++counts[static_cast<std::size_t>(task->example(1, index).sources[0] / 2)];
  double statistic = 0;
  for (const int count : counts) statistic += (count - 100.0) * (count - 100.0) / 100.0;
  EXPECT_LT(statistic, 30 + 5 * 7.75);
}

TEST(MultiHop, IsSolvedByTwoSearches) {
  for (const int length : {15, 37, 64}) {
    const int most = length == 15 ? 3 : 8;
    const auto task = task_of(R"({"kind":"multihop","bindings":"1..)" + std::to_string(most) + R"(","length":)" +
                              std::to_string(length) + "}");
    for_examples(*task, 64, [&](const Example& example, std::uint64_t index) {
      expect_one_answer(*task, example);
      const auto& x = example.tokens;
      std::map<int, int> where = pair_places(*task, example);
      ASSERT_EQ(where.size(), 2 * (1 + index % static_cast<std::uint64_t>(most)));
      ASSERT_TRUE(where.count(x.back()));
      const int first = where[x.back()];
      ASSERT_TRUE(where.count(x[first + 1])) << "the first pair leads to a second one";
      const int second = where[x[first + 1]];
      ASSERT_EQ(example.targets.back(), x[second + 1]);
      std::vector<std::int32_t> sources = {first, first + 1, second, second + 1};
      std::sort(sources.begin(), sources.end());
      ASSERT_EQ(example.sources, sources);
    });
  }
}

// Every other example asks for the middle, behind a mark of its own; the others are those of the plain task.
TEST(MultiHop, AlsoAsksForTheMiddle) {
  const auto plain = task_of(R"({"kind":"multihop","bindings":[2,3],"length":24})"),
             both = task_of(R"({"kind":"multihop","bindings":[2,3],"length":24,"asks":"middle and end"})");
  EXPECT_NE(both->describe().find("b. 24 tokens"), std::string::npos) << both->describe();
  EXPECT_EQ(plain->describe().find("answer b"), std::string::npos) << plain->describe();
  for_examples(*both, 64, [&](const Example& example, std::uint64_t index) {
    ASSERT_EQ(answer_places(example), std::vector<int>{23});
    const auto& x = example.tokens;
    const bool asks_middle = index / 2 % 2 == 1;
    std::map<int, int> where = pair_places(*both, example, asks_middle ? suite::arrow : suite::query);
    const int middle = x[static_cast<std::size_t>(where[x.back()] + 1)];
    ASSERT_EQ(example.targets.back(), asks_middle ? middle : x[static_cast<std::size_t>(where[middle] + 1)]);
    ASSERT_EQ(example.sources.size(), asks_middle ? 2u : 4u);
    ASSERT_EQ(example.context.back(), 2) << "the asked key belongs to a question";
  });
}

TEST(CommonWord, IsSolvedByCounting) {
  for (const int repeats : {2, 3, 5}) {
    const auto task =
        task_of(R"({"kind":"commonword","bindings":"1..8","length":65,"repeats":)" + std::to_string(repeats) + "}");
    for_examples(*task, 64, [&](const Example& example, std::uint64_t index) {
      expect_one_answer(*task, example);
      const auto& x = example.tokens;
      std::map<int, std::vector<std::int32_t>> places;
      std::set<int> facts;
      ASSERT_EQ(x[0], 1);
      for (int t = 1; t < 64; ++t) {
        ASSERT_TRUE(is_filler(x[t]) || is_value(x[t]));
        if (is_filler(x[t])) continue;
        places[x[t]].push_back(t);
        facts.insert(t);
      }
      ASSERT_EQ(x[64], 3);
      ASSERT_EQ(places.size(), 1 + index % 8);
      for (const auto& [word, seen] : places) {
        if (word == example.targets.back())
          ASSERT_EQ(static_cast<int>(seen.size()), repeats);
        else
          ASSERT_LT(static_cast<int>(seen.size()), repeats);
      }
      ASSERT_EQ(example.sources, places[example.targets.back()]);
      expect_context(example, facts);
    });
  }
}

// Nothing but the evidence may tell the answer: over many examples every value is equally frequent,
// and so is the place of the asked binding.
TEST(SystemPrompt, GivesNoHintButTheBinding) {
  const auto task = task_of(R"({"kind":"sysprompt","bindings":8,"length":64})");
  std::vector<int> values(32), slots(8);
  for (std::uint64_t index = 0; index < 3200; ++index) {
    const Example example = task->example(3, index);
    ++values[static_cast<std::size_t>(example.targets.back() - 48)];
    ++slots[static_cast<std::size_t>((example.sources[0] - 1) / 2)];
  }
  for (const int count : values) EXPECT_NEAR(count, 100, 50);
  for (const int count : slots) EXPECT_NEAR(count, 400, 100);
}

TEST(Suite, DistinctNumbersComeInEveryOrderEquallyOften) {
  std::map<std::vector<int>, int> counts;
  for (std::uint64_t index = 0; index < 6000; ++index) {
    Random random(1, 0, index);
    ++counts[draw_distinct(random, 3, 7, 4)];
  }
  ASSERT_EQ(counts.size(), 24u);
  for (const auto& [numbers, count] : counts) {
    EXPECT_NEAR(count, 250, 5 * std::sqrt(250.0));
    EXPECT_EQ(std::set<int>(numbers.begin(), numbers.end()).size(), 3u);
    EXPECT_TRUE(*std::min_element(numbers.begin(), numbers.end()) >= 7 &&
                *std::max_element(numbers.begin(), numbers.end()) < 11);
  }
}

TEST(Suite, FitsIntoTheSmallestLengthThatTheErrorNames) {
  const struct {
    const char* config;
    int smallest;
  } cases[] = {{R"({"kind":"sysprompt","bindings":8})", 20},
               {R"({"kind":"tooltrace","bindings":8})", 38},
               {R"({"kind":"niah","bindings":[2,8]})", 19},
               {R"({"kind":"multihop","bindings":"1..8"})", 35},
               {R"({"kind":"commonword","bindings":8,"repeats":3})", 19},
               {R"({"kind":"mqar","bindings":8})", 32}};
  for (const auto& one : cases) {
    nlohmann::json config = nlohmann::json::parse(one.config);
    config["length"] = one.smallest;
    const auto task = make_task(config);
    for_examples(*task, 32,
                 [&](const Example& example, std::uint64_t) { ASSERT_FALSE(answer_places(example).empty()); });
    config["length"] = one.smallest - 1;
    try {
      make_task(config);
      FAIL() << one.config;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("at least " + std::to_string(one.smallest)), std::string::npos)
          << error.what();
    }
  }
}

TEST(Suite, LabelsAndRolesFollowTheTokenMap) {
  const auto task = task_of(R"("sysprompt")");
  EXPECT_EQ(task->vocab(), 128);
  EXPECT_EQ(task->token_label(2), "|");
  EXPECT_EQ(task->token_label(3), "?");
  EXPECT_EQ(task->token_label(4), "→");
  EXPECT_EQ(task->token_label(5), "=");
  EXPECT_EQ(task->token_label(19), "k3");
  EXPECT_EQ(task->token_label(57), "v9");
  EXPECT_EQ(task->token_label(127), "·");
  EXPECT_EQ(task->token_label(128), "?!");
  EXPECT_EQ(task->token_label(-1), "?!");
  EXPECT_EQ(task->token_role(1), TokenRole::start);
  EXPECT_EQ(task->token_role(47), TokenRole::key);
  EXPECT_EQ(task->token_role(48), TokenRole::value);
  EXPECT_EQ(task->token_role(80), TokenRole::filler);
  EXPECT_EQ(task->token_role(12), TokenRole::blank);
  EXPECT_EQ(task->token_role(79), TokenRole::value);
  const auto trace = task_of(R"("tooltrace")");
  EXPECT_EQ(trace->token_label(17), "a1");
  EXPECT_EQ(trace->token_label(31), "t7");
}

}  // namespace
}  // namespace afterglow
