// Text files as a task: windows, the held-out part, labels, and every way in which a file can be unusable.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/io/checksum.h"
#include "core/io/error.h"
#include "tests/core/tasks/task_support.h"
#include "tests/support/folders.h"

namespace afterglow {
namespace {

using ::testing::HasSubstr;

class TextTask : public ::testing::Test {
 protected:
  std::string path =
      (build_folder() / ("text_task_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name())))
          .string();

  void TearDown() override { std::filesystem::remove(path); }

  nlohmann::json config(const std::string& bytes, int length) const {
    std::ofstream(path, std::ios::binary) << bytes;
    return {{"kind", "text"}, {"path", path}, {"length", length}};
  }
  static std::string refusal(const nlohmann::json& config) {
    try {
      make_task(config);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }
};

TEST_F(TextTask, TargetsAreTheNextCharacters) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += static_cast<char>('a' + (i * i / 7) % 26);
  const auto task = make_task(config(text, 37));
  for_examples(*task, 30, [&](const Example& example, std::uint64_t) {
    std::string window;
    for (const int token : example.tokens) window += task->token_label(token);
    window += task->token_label(example.targets.back());
    ASSERT_NE(text.find(window), std::string::npos);
    for (std::size_t t = 0; t + 1 < 37; ++t) ASSERT_EQ(example.targets[t], example.tokens[t + 1]);
  });
}

TEST_F(TextTask, SplitsComeFromDifferentPartsOfTheFile) {
  const auto task = make_task(config(std::string(900, 'a') + std::string(100, 'b'), 20));
  for (std::uint64_t index = 0; index < 300; ++index) {
    const Example train = task->example(1, index), held_out = task->example(1, index, Split::held_out);
    for (std::size_t t = 0; t < 20; ++t) {
      ASSERT_EQ(task->token_label(train.tokens[t]) + task->token_label(train.targets[t]), "aa");
      ASSERT_EQ(task->token_label(held_out.tokens[t]) + task->token_label(held_out.targets[t]), "bb");
    }
  }
}

TEST_F(TextTask, ReadsAnyFileByItsBytes) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += static_cast<char>(i * 7);  // no UTF-8
  nlohmann::json of_bytes = config(text, 7);
  EXPECT_THAT(refusal(of_bytes), HasSubstr("set 'letters' to bytes"));
  of_bytes["letters"] = "bytes";
  const auto task = make_task(of_bytes);
  EXPECT_EQ(task->vocab(), 256);
  for_examples(*task, 10, [&](const Example& example, std::uint64_t) {
    std::string window;
    for (const int token : example.tokens) window += task->token_text(token);
    ASSERT_NE(text.find(window), std::string::npos);
  });
  const std::string written = "aé→\n";
  std::string back;
  for (const int token : task->tokens_of(written)) back += task->token_text(token);
  EXPECT_EQ(back, written);
  EXPECT_EQ(task->tokens_of("é"), (std::vector{0xC3, 0xA9}));
  EXPECT_EQ(task->token_label('a'), "a");
  EXPECT_EQ(task->token_label(0xC3), "^195");
}

TEST_F(TextTask, WhatDoesNotOccurIsNoBeginning) {
  const auto task = make_task(config(std::string(500, 'a') + std::string(500, 'b'), 20));
  EXPECT_EQ(task->tokens_of("abba"), (std::vector{0, 1, 1, 0}));
  EXPECT_THROW(task->tokens_of("abc"), Error);
}

TEST_F(TextTask, ReadsCharactersNotBytes) {
  std::string text = "\xEF\xBB\xBF";
  for (int i = 0; i < 20; ++i) text += "aé→𝄞 \n\t\x01";
  const auto task = make_task(config(text, 7));
  ASSERT_EQ(task->vocab(), 8);
  const char* labels[] = {"^1", "⇥", "⏎", "␣", "a", "é", "→", "𝄞"};
  for (int token = 0; token < 8; ++token) {
    EXPECT_EQ(task->token_label(token), labels[token]);
    EXPECT_EQ(task->token_role(token), TokenRole::text);
  }
  EXPECT_EQ(task->token_label(8), "?!");
  EXPECT_THAT(task->describe(), HasSubstr("160 characters of 8 kinds"));
}

TEST_F(TextTask, AcceptsTheShortestTextThatTheErrorNames) {
  EXPECT_EQ(refusal(config(std::string(380, 'x'), 37)), "accepted");
  const auto task = make_task(config(std::string(380, 'x'), 37));
  EXPECT_EQ(task->example(1, 5, Split::held_out).tokens.size(), 37u);
  EXPECT_THAT(refusal(config(std::string(379, 'x'), 37)), HasSubstr("need 380"));
  EXPECT_THAT(refusal(config("", 37)), HasSubstr("holds 0 characters"));
}

TEST_F(TextTask, NamesTheByteThatIsNoText) {
  const std::string good(1000, 'x');
  for (const char* bad : {"\xff", "\xc0\xaf", "\xe2\x28\xa1", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80",
                          "\xe0\x82\x80", "\xf0\x82\x80\x80"})
    EXPECT_THAT(refusal(config(good + bad + good, 8)), HasSubstr("byte 1000 of")) << bad;
  EXPECT_THAT(refusal(config(good + "\xe2\x82", 8)), HasSubstr("byte 1000 of")) << "cut in the middle of a character";
}

TEST_F(TextTask, RefusesMissingFilesFoldersAndBadPaths) {
  EXPECT_THAT(refusal({{"kind", "text"}, {"path", path + "_missing"}}), HasSubstr("_missing"));
  EXPECT_THROW(make_task({{"kind", "text"}, {"path", build_folder().string()}}), Error);
  EXPECT_THAT(refusal({{"kind", "text"}}), HasSubstr("'path' is missing"));
  EXPECT_THAT(refusal({{"kind", "text"}, {"path", ""}}), HasSubstr("'path' is"));
  EXPECT_THAT(refusal({{"kind", "text"}, {"path", 3}}), HasSubstr("'path' is 3"));
}

TEST_F(TextTask, AHashRefusesAnotherContentUnderTheSameName) {
  const std::string text(200, 'a');
  nlohmann::json task = config(text, 8);
  task["hash"] = hex16(checksum(std::as_bytes(std::span(text))));
  EXPECT_EQ(refusal(task), "accepted");
  config(text + "b", 8);
  EXPECT_THAT(refusal(task), ::testing::AllOf(HasSubstr(path), HasSubstr("not the file"), HasSubstr("--data")));
}

TEST_F(TextTask, RefusesMoreCharactersThanAModelCouldName) {
  std::string text;
  for (char32_t c = 0x4E00; c < 0x4E00 + 9000; ++c) {
    text += static_cast<char>(0xE0 | (c >> 12));
    text += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    text += static_cast<char>(0x80 | (c & 0x3F));
  }
  EXPECT_THAT(refusal(config(text, 8)), HasSubstr("9000 different characters"));
}

}  // namespace
}  // namespace afterglow
