// Token numbers from files, what a tokenizer calls them, and the task made of them.
#include <gmock/gmock.h>

#include <fstream>

#include "core/io/error.h"
#include "core/io/safetensors.h"
#include "core/tasks/token_ids.h"
#include "core/tasks/token_labels.h"
#include "tests/core/tasks/task_support.h"

namespace afterglow {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class IdsFiles : public testing::Test {
 protected:
  IdsFiles() : folder_(std::filesystem::path(testing::TempDir()) / "afterglow_ids") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~IdsFiles() override { std::filesystem::remove_all(folder_); }
  std::string put(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }
  std::string refusal(const std::string& text, std::int64_t vocab = 100) const {
    try {
      read_token_ids(put("wrong.txt", text), vocab);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      return error.what();
    }
    return "it is read";
  }
  std::filesystem::path folder_;
};

TEST_F(IdsFiles, AreReadFromTextAndSafetensors) {
  const TokenIds one = read_token_ids(put("a.txt", "[3, 1,\t4 1]\n\n"), 10);
  EXPECT_EQ(one.sequences, 1);
  EXPECT_THAT(one.values, ElementsAre(3, 1, 4, 1));
  const TokenIds two = read_token_ids(put("b.txt", "1 2 3\r\n4 5 6"), 10);
  EXPECT_EQ(two.sequences, 2);
  EXPECT_EQ(two.length, 3);
  TensorFile file;
  const std::vector<std::int64_t> ids{5, 6, 7, 8};
  file.tensors.push_back(make_tensor("input_ids", {2, 2}, std::span<const std::int64_t>(ids)));
  write_safetensors(folder_ / "c.safetensors", file);
  EXPECT_THAT(read_token_ids(folder_ / "c.safetensors", 10).values, ElementsAre(5, 6, 7, 8));
}

TEST_F(IdsFiles, SayWhereTheyAreWrong) {
  EXPECT_THAT(refusal("1 2\n3 hello"), AllOf(HasSubstr("line 2"), HasSubstr("hello"), HasSubstr("tokenizer(text)")));
  EXPECT_THAT(refusal("1 2\n3"), HasSubstr("line 2 has 1"));
  EXPECT_THAT(refusal("1 2 100"), AllOf(HasSubstr("100"), HasSubstr("0 to 99")));
  EXPECT_THAT(refusal("1 -2"), HasSubstr("-2"));
  EXPECT_THAT(refusal("1.5"), HasSubstr("line 1"));
  EXPECT_THAT(refusal(" \n"), HasSubstr("0 numbers"));
}

TEST_F(IdsFiles, HaveTheLabelsOfTheirTokenizer) {
  const std::string pairs = put("tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"Ġthe": 1, "Ċ": 2, "a": 0,
    "incomprehensible": 3, "beyond": 99}}, "added_tokens": [{"id": 4, "content": "<eos>"}]})");
  EXPECT_THAT(read_token_labels(pairs, 6), ElementsAre("a", "·the", "↓", "incompr…", "<eos>", ""));
  const std::string pieces =
      put("pieces.json", R"({"model": {"type": "Unigram", "vocab": [["<unk>", 0], ["▁he", -1.5], ["<0x0A>", -3]]}})");
  EXPECT_THAT(read_token_labels(pieces, 3), ElementsAre("<unk>", "·he", "↓"));
  for (const char* wrong : {"", "[1]", "{}", R"({"model": {"vocab": 7}})"})
    EXPECT_THROW(read_token_labels(put("wrong.json", wrong), 3), Error) << wrong;
}

TEST_F(IdsFiles, MakeATaskThatAsksForTheNextOne) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += std::to_string(i % 50) + " ";
  const std::string path = put("ids.txt", text), labels = put("l.json", R"({"model": {"vocab": {"x": 7}}})");
  const nlohmann::json config{{"kind", "ids"}, {"vocab", 60}, {"length", 8}, {"path", path}, {"labels", labels}};
  const std::unique_ptr<Task> task = make_task(config);
  for (const Split split : {Split::train, Split::held_out}) {
    const Example example = task->example(3, 5, split);
    for (std::size_t t = 0; t < 8; ++t) EXPECT_EQ(example.targets[t], (example.tokens[t] + 1) % 50);
  }
  EXPECT_EQ(task->token_label(7), "x");
  EXPECT_EQ(task->token_label(8), "8");
  EXPECT_EQ(task->token_label(60), "?!");
  nlohmann::json longer = config;
  longer["length"] = 30;
  EXPECT_THROW(make_task(longer), Error);
}

TEST_F(IdsFiles, WithoutAFileRepeatWhatIsDrawn) {
  const std::unique_ptr<Task> task = make_task({{"kind", "ids"}, {"vocab", 50}, {"length", 20}});
  const Example example = task->example(3, 5);
  for (std::size_t t = 10; t < 20; ++t) EXPECT_EQ(example.tokens[t], example.tokens[t - 10]);
  for (std::size_t t = 0; t < 20; ++t) EXPECT_EQ(example.targets[t], t < 10 || t == 19 ? -1 : example.tokens[t + 1]);
}

}  // namespace
}  // namespace afterglow
