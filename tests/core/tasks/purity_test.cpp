// What every task promises: the same example whatever the order or the thread, splits that never meet, tokens in range;
// and golden hashes, which pin the generators for good. A changed hash means that old runs can no longer be repeated.
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "core/random/random.h"
#include "tests/core/tasks/task_support.h"

namespace afterglow {
namespace {

struct Pinned {
  const char* config;
  std::uint64_t hash;  ///< of examples 0 .. 5 of both splits, seed 7
};

void PrintTo(const Pinned& one, std::ostream* out) { *out << one.config; }

const std::vector<Pinned>& pinned() {
  static const std::vector<Pinned> all = {
      {R"({"kind":"mqar"})", 0x2ef5c231dbc32fb2ull},
      {R"({"kind":"mqar","bindings":"1..8","length":101,"vocab":37,"power":0.5,"fill":"blank"})",
       0x483bbfb8bc4b185dull},
      {R"({"kind":"sysprompt","bindings":"1..8"})", 0x5e2b56a0deaec247ull},
      {R"({"kind":"tooltrace","bindings":"1..8"})", 0x52833910fc64a1ceull},
      {R"({"kind":"niah","bindings":[1,4,8],"length":101})", 0xb132f1bcd619798eull},
      {R"({"kind":"multihop","bindings":[3,4,8],"length":37})", 0xe8e58f35c587656dull},
      {R"({"kind":"commonword","bindings":[2,4,8]})", 0x94da1e2552e8b5c9ull},
      {R"({"kind":"mixed","bindings":"1..8","length":64,"tasks":["sysprompt",{"kind":"tooltrace","weight":2}]})",
       0x564992e0aafdd12cull},
      {R"({"kind":"toolcall"})", 0x7821666485306a09ull},
      {R"({"kind":"toolcall","difficulty":"hard","length":700})", 0xee03c13ba5f3ab60ull},
      {R"({"kind":"economy"})", 0xb0777b3f3106d843ull},
      {R"({"kind":"economy","difficulty":"hard"})", 0x1938b5b0461f9f9bull},
      {R"({"kind":"cot_recall","bindings":"1..8"})", 0xe0a64d37f9532987ull},
      {R"({"kind":"specific_recall","length":101})", 0x5f1871403bb7b060ull},
      {R"({"kind":"cot_recall","bindings":"1..8","answers":3})", 0xee386567ceb7dd04ull},
      {R"({"kind":"copy","bindings":"1..8"})", 0x89fa369930d15570ull},
      {R"({"kind":"selective_copy","bindings":"1..8","length":37})", 0x726472d40cd4d235ull},
      {R"({"kind":"induction","length":37})", 0x6814a2cc35d45d7eull},
      {R"({"kind":"symbolsoup"})", 0xfbb5a53f02b10ea7ull},
      {R"({"kind":"symbolsoup","form":"published","length":101})", 0x301e9a72de652227ull},
      {R"({"kind":"diffuse_mqar"})", 0x2526bfabf5e2dcdaull},
      {R"({"kind":"diffuse_mqar","bindings":"1..8","key_length":1,"lag":"0..20"})", 0xe28f933ede1f01ecull},
      {R"({"kind":"stories"})", 0xc53bc8f7a24950ecull},
      {R"({"kind":"ids","vocab":50280,"length":37})", 0xe36e3ff14bff01d6ull},
  };
  return all;
}

class EveryTask : public ::testing::TestWithParam<Pinned> {
 protected:
  std::unique_ptr<Task> task = task_of(GetParam().config);
};

TEST_P(EveryTask, SaysHowManyAnswersAnExampleHasAtMost) {
  int most = 0;
  for (std::uint64_t index = 0; index < 64; ++index) {
    const Example example = task->example(7, index);
    most = std::max(most, static_cast<int>(std::ranges::count_if(example.targets, [](int t) { return t >= 0; })));
  }
  EXPECT_LE(most, task->max_answers());
  if (task->max_answers() < task->length()) {
    EXPECT_EQ(most, task->max_answers());
  }
}

TEST_P(EveryTask, HasItsGoldenHash) {
  std::uint64_t hash = 14695981039346656037ull;
  for (const Split split : {Split::train, Split::held_out})
    for (std::uint64_t index = 0; index < 6; ++index) hash = hash_of(task->example(7, index, split), hash);
  EXPECT_EQ(hash, GetParam().hash) << std::hex << "now 0x" << hash << "ull";
}

TEST_P(EveryTask, KeepsItsPromises) {
  for_examples(*task, 40, [&](const Example& example, std::uint64_t index) {
    const auto size = static_cast<std::size_t>(task->length());
    ASSERT_EQ(example.tokens.size(), size);
    ASSERT_EQ(example.targets.size(), size);
    ASSERT_EQ(example.context.size(), size);
    for (std::size_t t = 0; t < size; ++t) {
      ASSERT_TRUE(example.tokens[t] >= 0 && example.tokens[t] < task->vocab());
      ASSERT_TRUE(example.targets[t] >= -1 && example.targets[t] < task->vocab());
      ASSERT_LE(example.context[t], 2);
      ASSERT_TRUE(example.targets[t] < 0 || example.context[t] != 0) << "what asks is a question where it is no fact";
      ASSERT_NE(task->token_label(example.tokens[t]), "?!");
      ASSERT_FALSE(task->token_label(example.tokens[t]).empty());
    }
    ASSERT_FALSE(answer_places(example).empty()) << index;
    for (std::size_t i = 0; i < example.sources.size(); ++i) {
      ASSERT_TRUE(example.sources[i] >= 0 && example.sources[i] < task->length());
      ASSERT_TRUE(i == 0 || example.sources[i - 1] < example.sources[i]);
      ASSERT_EQ(example.context[static_cast<std::size_t>(example.sources[i])], 1) << "evidence is part of the context";
    }
  });
}

// A question is what stands between its mark and the place of its answer, and both.
TEST(Questions, ReachFromTheirMarkToTheAnswersPlace) {
  const auto roles = [](const char* config) {
    std::string text;
    for (const std::uint8_t role : task_of(config)->example(7, 3).context) text += "-f?"[role];
    return text;
  };
  EXPECT_EQ(roles(R"({"kind":"sysprompt","bindings":2,"length":16})"), "-ffff---------??");
  EXPECT_EQ(roles(R"({"kind":"tooltrace","bindings":1,"length":16})"), "-ffff-------????");
  EXPECT_EQ(roles(R"({"kind":"toolcall","bindings":1,"length":16})"), "------fffff?????");
  const std::string asked = roles(R"({"kind":"mqar","tokens":"suite","bindings":2,"length":16})");
  EXPECT_EQ(asked.substr(0, 6), "-ffff-");
  EXPECT_EQ(std::ranges::count(asked, '?'), 4);
}

TEST_P(EveryTask, IsPureWhateverTheOrderAndTheThread) {
  std::vector<Example> forward;
  for (std::uint64_t index = 0; index < 24; ++index) forward.push_back(task->example(3, index));
  const auto other = task_of(GetParam().config);
  for (std::uint64_t index = 24; index-- > 0;) ASSERT_TRUE(other->example(3, index) == forward[index]);
  std::vector<Example> threaded(24);
  std::vector<std::thread> threads;
  for (std::size_t worker = 0; worker < 3; ++worker)
    threads.emplace_back([&, worker] {
      for (std::size_t index = worker; index < 24; index += 3) threaded[index] = task->example(3, index);
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t index = 0; index < 24; ++index) ASSERT_TRUE(threaded[index] == forward[index]);
}

TEST_P(EveryTask, SeedsIndicesAndSplitsDiffer) {
  std::set<std::vector<std::int32_t>> seen;
  for (const std::uint64_t seed : {1ull, 2ull, 1ull << 32})
    for (const Split split : {Split::train, Split::held_out})
      for (std::uint64_t index = 0; index < 50; ++index) seen.insert(task->example(seed, index, split).tokens);
  EXPECT_EQ(seen.size(), 300u);
}

TEST_P(EveryTask, HugeIndicesAreFine) {
  const std::uint64_t last = ~0ull;
  EXPECT_TRUE(task->example(last, last) == task->example(last, last));
  EXPECT_NE(task->example(last, last).tokens, task->example(last, last - 1).tokens);
}

TEST_P(EveryTask, BatchesAreRowsOfExamples) {
  const auto length = static_cast<std::size_t>(task->length());
  std::vector<std::int32_t> tokens(5 * length), targets(5 * length);
  std::vector<std::uint8_t> context(5 * length);
  fill_batch(*task, 8, 100, 5, tokens.data(), targets.data(), context.data(), Split::held_out);
  for (std::size_t row = 0; row < 5; ++row) {
    const Example example = task->example(8, 100 + row, Split::held_out);
    for (std::size_t t = 0; t < length; ++t) {
      ASSERT_EQ(tokens[row * length + t], example.tokens[t]);
      ASSERT_EQ(targets[row * length + t], example.targets[t]);
      ASSERT_EQ(context[row * length + t], example.context[t]);
    }
  }
  std::vector<std::int32_t> alone(5 * length);
  fill_batch(*task, 8, 100, 5, alone.data(), nullptr, nullptr, Split::held_out);
  EXPECT_EQ(alone, tokens);
}

INSTANTIATE_TEST_SUITE_P(Pinned, EveryTask, ::testing::ValuesIn(pinned()), [](const auto& test) {
  return nlohmann::json::parse(test.param.config).at("kind").template get<std::string>() + std::to_string(test.index);
});

}  // namespace
}  // namespace afterglow
