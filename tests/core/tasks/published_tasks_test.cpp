// Echo's appendix G.4, Sessa's diffuse recall and symbol soup, and the classic small tasks: each decoded and solved.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/io/error.h"
#include "tests/core/tasks/task_support.h"

namespace afterglow {
namespace {

// Skips the blanks in front; returns the position after the start token.
int begin_of(const Example& example) {
  int t = 0;
  while (example.tokens[static_cast<std::size_t>(t)] == 0) ++t;
  EXPECT_EQ(example.tokens[static_cast<std::size_t>(t)], 1);
  return t + 1;
}

TEST(ToolCall, AnswersWithTheLatestCall) {
  int repeated = 0;
  for (const char* config : {R"({"kind":"toolcall"})", R"({"kind":"toolcall","difficulty":"hard","length":701})"}) {
    const auto task = task_of(config);
    std::set<int> counts;
    for_examples(*task, 70, [&](const Example& example, std::uint64_t) {
      const auto& x = example.tokens;
      ASSERT_EQ(answer_places(example), std::vector<int>{task->length() - 1});
      std::map<std::pair<int, int>, int> latest;
      int t = begin_of(example), calls = 0;
      for (; x[t] != 3; t += 5, ++calls) {
        ASSERT_TRUE(x[t] >= 16 && x[t] < 24 && x[t + 1] == 6 && x[t + 2] >= 24 && x[t + 2] < 32 && x[t + 3] == 4);
        ASSERT_TRUE(is_value(x[t + 4]));
        repeated += static_cast<int>(latest.count({x[t], x[t + 2]}));
        latest[{x[t], x[t + 2]}] = t;
      }
      ASSERT_EQ(t + 5, task->length());
      ASSERT_EQ(x.back(), 5);
      counts.insert(calls);
      ASSERT_TRUE((latest.count({x[t + 1], x[t + 3]})));
      const int place = latest[{x[t + 1], x[t + 3]}];
      ASSERT_EQ(example.targets.back(), x[place + 4]);
      ASSERT_EQ(example.sources, (std::vector<std::int32_t>{place, place + 2, place + 4}));
    });
    const bool hard = std::string(config).find("hard") != std::string::npos;
    EXPECT_EQ(*counts.begin(), hard ? 60 : 10);
    EXPECT_EQ(*counts.rbegin(), hard ? 120 : 30);
  }
  EXPECT_GT(repeated, 0) << "the word 'latest' must matter";
}

// Replays the steps and keeps the books.
void expect_books_balance(const Task& task, int agents, const Example& example) {
  const auto& x = example.tokens;
  std::map<std::pair<int, int>, int> has;
  std::map<std::pair<int, int>, std::set<std::int32_t>> evidence;
  const auto change = [&](int agent, int resource, int amount, int from, int to) {
    ASSERT_TRUE(agent >= 16 && agent < 16 + agents);
    has[{agent, resource}] += amount;
    ASSERT_GE((has[{agent, resource}]), 0);
    ASSERT_LE((has[{agent, resource}]), 31);
    for (int t = from; t < to; ++t) evidence[{agent, resource}].insert(t);
  };
  int t = begin_of(example);
  while (x[t] != 2) {
    const int agent = x[t], action = x[t + 1];
    ASSERT_TRUE(action >= 7 && action <= 9);
    if (action == 7) {
      change(agent, x[t + 2], x[t + 3] - 48, t, t + 4);
      t += 4;
    } else if (action == 8) {
      ASSERT_NE(agent, x[t + 2]);
      ASSERT_GT(x[t + 4], 48);
      change(agent, x[t + 3], 48 - x[t + 4], t, t + 5);
      change(x[t + 2], x[t + 3], x[t + 4] - 48, t, t + 5);
      t += 5;
    } else {
      change(agent, 10, -1, t, t + 2);
      change(agent, 11, -1, t, t + 2);
      t += 2;
    }
  }
  for (++t; x[t] != 3; ++t) ASSERT_TRUE(is_filler(x[t]));
  ASSERT_EQ(t + 4, task.length());
  ASSERT_EQ(x.back(), 5);
  const std::pair<int, int> asked = {x[t + 1], x[t + 2]};
  ASSERT_EQ(example.targets.back(), 48 + has[asked]);
  ASSERT_FALSE(evidence[asked].empty());
  ASSERT_EQ(std::set<std::int32_t>(example.sources.begin(), example.sources.end()), evidence[asked]);
}

TEST(Economy, AnswersWhatTheBooksSay) {
  const auto easy = task_of(R"({"kind":"economy","length":101})"),
             hard = task_of(R"({"kind":"economy","difficulty":"hard"})");
  const auto lonely = task_of(R"({"kind":"economy","agents":1,"bindings":300,"gap":5})");
  const auto rich = task_of(R"({"kind":"economy","agents":2,"bindings":300})");
  for_examples(*rich, 5, [&](const Example& example, std::uint64_t) { expect_books_balance(*rich, 2, example); });
  for_examples(*easy, 50, [&](const Example& example, std::uint64_t) { expect_books_balance(*easy, 3, example); });
  for_examples(*hard, 30, [&](const Example& example, std::uint64_t) { expect_books_balance(*hard, 6, example); });
  for_examples(*lonely, 5, [&](const Example& example, std::uint64_t) { expect_books_balance(*lonely, 1, example); });
}

TEST(Amnesia, IsSolvedBySearchAmongTheSystemVariables) {
  for (const char* config :
       {R"({"kind":"cot_recall"})", R"({"kind":"cot_recall","difficulty":"hard","bindings":"1..8"})",
        R"({"kind":"specific_recall"})", R"({"kind":"specific_recall","difficulty":"hard","length":300})",
        R"({"kind":"specific_recall","bindings":31,"gap":[0,1,37]})"}) {
    const auto task = task_of(config);
    for_examples(*task, 40, [&](const Example& example, std::uint64_t) {
      const auto& x = example.tokens;
      ASSERT_EQ(answer_places(example), std::vector<int>{task->length() - 1});
      std::map<int, int> where;
      int t = begin_of(example);
      for (; x[t] != 2; t += 2) {
        ASSERT_TRUE(is_key(x[t]) && is_value(x[t + 1]));
        ASSERT_TRUE(where.emplace(x[t], t).second);
      }
      for (++t; x[t] != 3; ++t) ASSERT_FALSE(where.count(x[t])) << "noise never binds a system variable again";
      ASSERT_EQ(t + 2, task->length());
      ASSERT_TRUE(where.count(x.back()));
      const int place = where[x.back()];
      ASSERT_EQ(example.targets.back(), x[place + 1]);
      ASSERT_EQ(example.sources, (std::vector<std::int32_t>{place, place + 1}));
    });
  }
}

TEST(Amnesia, AsksSeveralVariablesEachOnce) {
  for (const char* config : {R"({"kind":"cot_recall","answers":3})", R"({"kind":"specific_recall","answers":3})"}) {
    const auto task = task_of(config);
    for_examples(*task, 40, [&](const Example& example, std::uint64_t) {
      const auto& x = example.tokens;
      std::map<int, int> value_of;
      for (int t = begin_of(example); x[t] != 2; t += 2) value_of[x[t]] = x[t + 1];
      const std::vector<int> places = answer_places(example);
      const int last = task->length() - 1;
      ASSERT_EQ(places, (std::vector<int>{last - 4, last - 2, last}));
      std::set<int> asked;
      for (const int place : places) {
        ASSERT_EQ(x[place - 1], 3);
        ASSERT_EQ(example.targets[place], value_of.at(x[place]));
        asked.insert(x[place]);
      }
      ASSERT_EQ(asked.size(), 3u);
      ASSERT_EQ(x[example.sources.at(0)], x[last]) << "the evidence of the last answer";
    });
  }
  EXPECT_EQ(task_of(R"({"kind":"cot_recall","bindings":2,"answers":9})")->max_answers(), 2);
}

TEST(Amnesia, GapsAreAsLongAsPublished) {
  const auto task = task_of(R"({"kind":"cot_recall"})");
  std::set<int> gaps;
  for (std::uint64_t index = 0; index < 400; ++index) {
    const Example example = task->example(1, index);
    const auto separator = std::find(example.tokens.begin(), example.tokens.end(), 2);
    gaps.insert(static_cast<int>(example.tokens.end() - separator) - 3);
  }
  EXPECT_EQ(gaps.size(), 21u);
  EXPECT_EQ(*gaps.begin(), 10);
  EXPECT_EQ(*gaps.rbegin(), 30);
}

TEST(Copy, AnswersTheItemsInOrder) {
  for (const char* kind : {"copy", "selective_copy"})
    for (const int length : {18, 37, 65}) {
      const auto task = task_of(R"({"kind":")" + std::string(kind) + R"(","bindings":"1..8","length":)" +
                                std::to_string(length) + "}");
      for_examples(*task, 32, [&](const Example& example, std::uint64_t index) {
        const int items = 1 + static_cast<int>(index % 8);
        std::vector<int> seen, answers;
        for (int t = 0; t < length; ++t) {
          const int token = example.tokens[static_cast<std::size_t>(t)];
          if (is_value(token)) seen.push_back(token);
          ASSERT_EQ(token == 3, t >= length - items);
          ASSERT_EQ(example.targets[static_cast<std::size_t>(t)] >= 0, token == 3);
          if (token == 3) answers.push_back(example.targets[static_cast<std::size_t>(t)]);
        }
        ASSERT_EQ(seen.size(), static_cast<std::size_t>(items));
        ASSERT_EQ(seen, answers);
        if (std::string(kind) == "copy") {
          ASSERT_EQ(example.tokens[static_cast<std::size_t>(1 + items)], 2);
        }
      });
    }
}

TEST(Induction, AnswersWhatFollowedTheOnlyOccurrence) {
  for (const int length : {4, 5, 37, 64}) {
    const auto task = task_of(R"({"kind":"induction","length":)" + std::to_string(length) + "}");
    for_examples(*task, 40, [&](const Example& example, std::uint64_t) {
      const auto& x = example.tokens;
      ASSERT_EQ(std::count(x.begin(), x.end(), x.back()), 2);
      const auto place = std::find(x.begin(), x.end(), x.back()) - x.begin();
      ASSERT_EQ(example.targets.back(), x[static_cast<std::size_t>(place + 1)]);
      ASSERT_EQ(example.sources[0], place);
    });
  }
}

TEST(DiffuseMqar, IsSolvedByWholeKeysAndDistractsByTheirBeginnings) {
  int distractors = 0;
  for (const char* config :
       {R"({"kind":"diffuse_mqar"})", R"({"kind":"diffuse_mqar","bindings":31,"key_length":1,"length":200})",
        R"({"kind":"diffuse_mqar","bindings":[3,8],"key_length":2,"lag":"5..40"})"}) {
    const auto task = task_of(config);
    const nlohmann::json fields = nlohmann::json::parse(config);
    const int m = fields.value("key_length", 3);
    for_examples(*task, 30, [&](const Example& example, std::uint64_t) {
      const auto& x = example.tokens;
      const auto key_at = [&](int t) { return std::vector<int>(x.begin() + t, x.begin() + t + m); };
      std::map<std::vector<int>, int> where;
      std::set<std::vector<int>> beginnings;
      int t = begin_of(example);
      for (; x[t] != 2; t += m + 1) {
        ASSERT_TRUE(where.emplace(key_at(t), t).second);
        beginnings.insert(std::vector<int>(x.begin() + t, x.begin() + t + m - 1));
      }
      const int separator = t;
      for (++t; x[t] != 3;) {
        if (is_filler(x[t])) {
          ++t;
          continue;
        }
        ASSERT_TRUE(beginnings.count(std::vector<int>(x.begin() + t, x.begin() + t + m - 1)));
        ASSERT_FALSE(where.count(key_at(t))) << "a distractor is never a real key";
        ASSERT_TRUE(is_value(x[t + m]));
        ++distractors;
        t += m + 1;
      }
      if (fields.contains("lag")) {
        ASSERT_TRUE(t - separator - 1 >= 5 && t - separator - 1 <= 40);
      }
      std::set<std::vector<int>> asked;
      for (; t < task->length(); t += m + 1) {
        ASSERT_EQ(x[t], 3);
        ASSERT_TRUE(where.count(key_at(t + 1)));
        ASSERT_EQ(example.targets[static_cast<std::size_t>(t + m)], x[where[key_at(t + 1)] + m]);
        asked.insert(key_at(t + 1));
      }
      ASSERT_EQ(asked.size(), where.size());
      ASSERT_EQ(answer_places(example).size(), where.size());
    });
  }
  EXPECT_GT(distractors, 100);
}

// Letters of the two blocks, from the marks alone.
std::vector<std::vector<int>> blocks_of(const Example& example) {
  std::vector<std::vector<int>> blocks;
  bool inside = false;
  for (const int token : example.tokens) {
    if (token == 1) blocks.emplace_back();
    if (token == 1 || token == 2)
      inside = token == 1;
    else if (inside)
      blocks.back().push_back(token - 4);
  }
  return blocks;
}

TEST(SymbolSoup, HasThePublishedForm) {
  for (const int length : {24, 37, 101}) {
    const auto task = task_of(R"({"kind":"symbolsoup","part":8,"length":)" + std::to_string(length) + "}");
    EXPECT_EQ(task->vocab(), 4 + 16 + 20);
    std::set<int> labels;
    for_examples(*task, 100, [&](const Example& example, std::uint64_t) {
      ASSERT_EQ(answer_places(example), std::vector<int>{length - 1});
      ASSERT_EQ(example.tokens.back(), 3);
      ASSERT_GE(example.targets.back(), 20);
      labels.insert(example.targets.back());
      const auto blocks = blocks_of(example);
      ASSERT_EQ(blocks.size(), 2u);
      for (const auto& block : blocks) ASSERT_EQ(block.size(), 8u);
      ASSERT_EQ(example.sources.size(), 16u);
      for (int t = 0; t < length - 1; ++t) {
        const int token = example.tokens[static_cast<std::size_t>(t)];
        ASSERT_TRUE(token == 1 || token == 2 || (token >= 4 && token < 20));
      }
      ASSERT_NE(example.tokens[0], 1) << "noise comes first";
      ASSERT_NE(example.tokens[static_cast<std::size_t>(length - 2)], 2) << "and last";
    });
    EXPECT_EQ(labels.size(), 20u);
  }
}

// The sizes, the blanks and the statistics of the authors' generator, for its 400 to 600 tokens.
TEST(SymbolSoup, HasTheFormOfTheAuthorsGenerator) {
  const auto task = task_of(R"({"kind":"symbolsoup","form":"published","length":600})");
  std::size_t least = 600, most = 0, neighbours = 0, bigrams = 0;
  double noise = 0, examples = 0;
  for_examples(*task, 400, [&](const Example& example, std::uint64_t) {
    ASSERT_EQ(answer_places(example), std::vector<int>{599});
    std::size_t first = 0;
    while (example.tokens[first] == 0) ++first;
    for (std::size_t t = first; t < 600; ++t) ASSERT_EQ(example.tokens[t] == 0, (t - first) % 2 == 1) << t;
    least = std::min(least, 600 - first);
    most = std::max(most, 600 - first);
    std::size_t of_parts = 0;
    for (std::vector<int> block : blocks_of(example)) {
      std::erase(block, -4);  // blanks
      ASSERT_GE(block.size(), 1u);
      of_parts += block.size();
      for (std::size_t i = 1; i < block.size(); ++i, ++bigrams) neighbours += block[i] == block[i - 1] + 1;
    }
    ASSERT_EQ(example.sources.size(), of_parts);
    const double all = static_cast<double>((600 - first - 9) / 2), share = 1 - static_cast<double>(of_parts) / all;
    ASSERT_GT(share, 0.29);
    ASSERT_LT(share, 0.61);
    noise += share;
    ++examples;
  });
  EXPECT_GE(least, 400u);
  EXPECT_LE(least, 405u);
  EXPECT_GE(most, 595u);
  EXPECT_NEAR(noise / examples, 0.45, 0.02);
  // Of 100 draws 30 are motifs of 3.9 letters on average, so that 87 of 187 bigrams are neighbours of the alphabet.
  EXPECT_NEAR(static_cast<double>(neighbours) / static_cast<double>(bigrams), 0.47, 0.06);
  EXPECT_THROW(task_of(R"({"kind":"symbolsoup","form":"published","part":8})"), Error);
}

// A bigram model of each label, learnt from training examples, names the styles of held-out ones: the label can be
// found from the letters, and the styles are the same in both splits.
TEST(SymbolSoup, StylesCanBeToldFromTheirLetters) {
  const auto task = task_of(R"({"kind":"symbolsoup"})");
  std::vector<std::vector<double>> counts(20, std::vector<double>(256, 0.5));
  const auto each_bigram = [&](const Example& example, const auto& visit) {
    for (const auto& block : blocks_of(example))
      for (std::size_t i = 1; i < block.size(); ++i) visit(static_cast<std::size_t>(block[i - 1] * 16 + block[i]));
  };
  for (std::uint64_t index = 0; index < 2000; ++index) {
    const Example example = task->example(1, index, Split::train);
    auto& of_label = counts[static_cast<std::size_t>(example.targets.back() - 20)];
    each_bigram(example, [&](std::size_t bigram) { ++of_label[bigram]; });
  }
  for (auto& of_label : counts) {
    double total = 0;
    for (const double count : of_label) total += count;
    for (double& count : of_label) count = std::log(count / total);
  }
  int right = 0;
  for (std::uint64_t index = 0; index < 200; ++index) {
    const Example example = task->example(1, index, Split::held_out);
    std::vector<double> score(20, 0);
    each_bigram(example, [&](std::size_t bigram) {
      for (std::size_t label = 0; label < 20; ++label) score[label] += counts[label][bigram];
    });
    right += std::max_element(score.begin(), score.end()) - score.begin() == example.targets.back() - 20;
  }
  EXPECT_GE(right, 180);
}

}  // namespace
}  // namespace afterglow
