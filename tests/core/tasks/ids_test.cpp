// Token numbers from files, what a tokenizer calls them, and the task made of them.
#include <gmock/gmock.h>

#include <fstream>

#include "core/io/error.h"
#include "core/io/safetensors.h"
#include "core/tasks/token_ids.h"
#include "core/tasks/token_labels.h"
#include "core/text/tokenizer.h"
#include "tests/core/tasks/task_support.h"

namespace afterglow {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TokenNames read_token_names(const std::string& path, std::size_t vocab) { return token_names(Tokenizer(path), vocab); }

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

TEST_F(IdsFiles, ListsEndAtTheirBrackets) {
  for (const char* text : {"[[1, 2, 3], [4, 5, 6]]", "[\n [\n  1,\n  2,\n  3\n ],\n [\n  4,\n  5,\n  6\n ]\n]",
                           "[1,2,3]\n[4,5,6]\n", "[[1 2\n  3]\n [4 5 6]]", "((1, 2, 3), (4, 5, 6))", "1 2 3\r4 5 6",
                           "\xef\xbb\xbf"
                           "1 2 3\n4 5 6",
                           R"({"input_ids": [[1,2,3],[4,5,6]], "token_type_ids": [[0,0,0],[0,0,0]]})",
                           "{\"input_ids\": [1,2,3]}\n{\"input_ids\": [4,5,6]}\n"}) {
    const TokenIds ids = read_token_ids(put("a.json", text), 10);
    EXPECT_EQ(ids.sequences, 2) << text;
    EXPECT_EQ(ids.length, 3) << text;
    EXPECT_THAT(ids.values, ElementsAre(1, 2, 3, 4, 5, 6)) << text;
  }
  EXPECT_EQ(read_token_ids(put("a.json", "[\n1,\n2\n]"), 10).sequences, 1);
  EXPECT_THAT(refusal("[[1, 2], [3"), HasSubstr("not closed"));
  EXPECT_THAT(refusal("[1, 2]]"), HasSubstr("none has opened"));
  EXPECT_THAT(refusal("[[1, 2], []]"), HasSubstr("has 0 numbers"));
  EXPECT_THAT(refusal("[1, [2, 3]]"), HasSubstr("has 2 numbers"));
  EXPECT_THAT(refusal("{\"text\": \"a\"}"), HasSubstr("'input_ids'"));
}

TEST_F(IdsFiles, AMaskLeavesPaddingOut) {
  const TokenIds ids = read_token_ids(
      put("a.json", R"({"input_ids": [[99,1,2],[3,4,5],[6,99,99]], "attention_mask": [[0,1,1],[1,1,1],[1,0,0]]})"), 10);
  EXPECT_EQ(ids.padding(), 3);
  EXPECT_EQ(ids.real[0].begin, 1);
  EXPECT_EQ(ids.real[2].end, 1);
  EXPECT_THAT(ids.values, ElementsAre(0, 1, 2, 3, 4, 5, 6, 0, 0));
  EXPECT_THAT(ids.tokens(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(refusal(R"({"input_ids": [1,2,3], "attention_mask": [1,0,1]})"), HasSubstr("between"));
  EXPECT_THAT(refusal(R"({"input_ids": [1,2,3], "attention_mask": [0,0,0]})"), HasSubstr("without a 1"));
  EXPECT_THAT(refusal(R"({"input_ids": [1,2,3], "attention_mask": [1,1]})"), HasSubstr("shape"));
}

TEST_F(IdsFiles, NarrowNumbersAreReadFromBytes) {
  const auto file_of = [&](const std::string& type, const std::string& data) {
    const std::string header =
        R"({"other":{"dtype":"F8_E4M3","shape":[0],"data_offsets":[0,0]},"input_ids":{"dtype":")" + type +
        R"(","shape":[2],"data_offsets":[0,)" + std::to_string(data.size()) + "]}}";
    std::string file(8, '\0');
    file[0] = static_cast<char>(header.size());
    return read_token_ids(put("a.safetensors", file + header + data), 70000).values;
  };
  EXPECT_THAT(file_of("U16", "\x01\x02\xff\xff"), ElementsAre(513, 65535));
  EXPECT_THAT(file_of("I16", {"\x01\x02\x03\x00", 4}), ElementsAre(513, 3));
  EXPECT_THAT(file_of("I8", "\x01\x02"), ElementsAre(1, 2));
  EXPECT_THROW(file_of("F32", std::string(8, '\0')), Error);
  EXPECT_THROW(file_of("I64", std::string(8, '\0')), Error) << "fewer bytes than its shape takes";
  EXPECT_THAT(read_token_ids(put("train.bin", {"\x05\x00\x07\x01", 4}), 1000).values, ElementsAre(5, 263));
  EXPECT_THAT(read_token_ids(put("text.bin", "5 7 1"), 1000).values, ElementsAre(5, 7, 1)) << "a text of that name";
  EXPECT_THROW(read_token_ids(put("odd.bin", {"\x05\x00\x07", 3}), 1000), Error);
}

TEST_F(IdsFiles, OtherFormatsAreNamed) {
  for (const std::string& content :
       {std::string("PK\x03\x04 model", 10), std::string("PAR1\0\x15", 6), std::string("\x80\x02}q\0", 5)}) {
    for (const char* name : {"model.pt", "tokens.parquet"}) {
      try {
        read_token_ids(put(name, content), 100);
        ADD_FAILURE() << name << " is read";
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr(name), HasSubstr(".npz"), HasSubstr("numpy.save")));
      }
    }
  }
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
    "incomprehensible": 3, "beyond": 99}}, "added_tokens": [{"id": 5, "content": "<eos>"}]})");
  EXPECT_THAT(read_token_names(pairs, 7).labels, ElementsAre("a", "·the", "↓", "incompr…", "", "<eos>", ""));
  const std::string pieces =
      put("pieces.json", R"({"model": {"type": "Unigram", "vocab": [["<unk>", 0], ["▁he", -1.5], ["<0x0A>", -3]]}})");
  EXPECT_THAT(read_token_names(pieces, 3).labels, ElementsAre("<unk>", "·he", "↓"));
  for (const char* wrong : {"", "[1]", "{}", R"({"model": {"vocab": 7}})"})
    EXPECT_THROW(read_token_names(put("wrong.json", wrong), 3), Error) << wrong;
}

TEST_F(IdsFiles, WriteTextAsTheTokenizerDecodesIt) {
  const std::string bytes =
      put("bytes.json", R"({"decoder": {"type": "ByteLevel"}, "model": {"vocab": {"Ġunderstanding": 0, "cafÃ©": 1,
    "Ġä½łå¥½": 2, "Ã": 3, "©": 4, "Ċ": 5}}, "added_tokens": [{"id": 6, "content": "<|end Ġ|>"}]})");
  const TokenNames names = read_token_names(bytes, 8);
  EXPECT_THAT(names.texts, ElementsAre(" understanding", "café", " 你好", "\xC3", "\xA9", "\n", "<|end Ġ|>", ""));
  EXPECT_THAT(names.labels, ElementsAre("·unders…", "café", "·你好", "Ã", "©", "↓", "<|end·Ġ…", ""));
  const std::string pieces = put("pieces.json", R"({"decoder": {"type": "Sequence", "decoders": [{"type": "Replace",
    "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]},
    "model": {"vocab": {"▁a▁b": 0, "<0xE4>": 1, "é": 2}}})");
  EXPECT_THAT(read_token_names(pieces, 3).texts, ElementsAre(" a b", "\xE4", "é"));
  const std::string parts =
      put("parts.json", R"({"decoder": {"type": "WordPiece"}, "model": {"vocab": {"play": 0, "##ing": 1}}})");
  EXPECT_THAT(read_token_names(parts, 2).texts, ElementsAre(" play", "ing"));

  const std::unique_ptr<Task> task = make_task({{"kind", "ids"}, {"vocab", 9}, {"length", 8}, {"labels", bytes}});
  std::string text;
  for (const int token : {1, 0, 7, 8, 2, 3, 4, 6}) text += task->token_text(token);
  EXPECT_EQ(text, "café understanding<#7><#8> 你好é<|end Ġ|>");
  EXPECT_EQ(task->tokens_of("#2 #1"), (std::vector{2, 1}));
  EXPECT_EQ(task->tokens_of("·你好 café"), (std::vector{2, 1}));
  EXPECT_THROW(task->tokens_of("# café"), Error) << "without merges no text is encoded";
  EXPECT_THROW(task->tokens_of("unknown"), Error);
}

TEST_F(IdsFiles, TakeTextsThatTheTokenizerEncodes) {
  const std::string file = put("bpe.json", R"({"decoder": {"type": "ByteLevel"}, "model": {"type": "BPE",
    "vocab": {"#": 0, "h": 1, "e": 2, "Ġ": 3, "he": 4}, "merges": ["h e"]}, "pre_tokenizer": {"type": "ByteLevel",
    "add_prefix_space": false}})");
  const std::unique_ptr<Task> task = make_task({{"kind", "ids"}, {"vocab", 9}, {"length", 8}, {"labels", file}});
  EXPECT_EQ(task->tokens_of("# he h"), (std::vector{0, 3, 4, 3, 1}));
  EXPECT_EQ(task->tokens_of("#4 #1"), (std::vector{4, 1}));
  ASSERT_NE(task->tokenizer(), nullptr);
  EXPECT_EQ(task->tokenizer()->decode(task->tokens_of("he e")), "he e");
}

TEST_F(IdsFiles, SplitTextsIntoTheLongestTokensWhereMergesCannotBegin) {
  const std::string file = put("whole.json", R"({"decoder": {"type": "ByteLevel"}, "model": {"type": "BPE",
    "vocab": {"Ġthe": 0, "cafÃ©": 1, "Ċ": 2, "Ġth": 3}, "merges": []}, "pre_tokenizer": {"type": "ByteLevel",
    "add_prefix_space": false}})");
  const std::unique_ptr<Task> task = make_task({{"kind", "ids"}, {"vocab", 4}, {"length", 8}, {"labels", file}});
  EXPECT_EQ(task->tokens_of(" thecafé the"), (std::vector{0, 1, 0}));
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
