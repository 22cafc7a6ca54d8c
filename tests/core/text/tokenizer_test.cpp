// Text to tokens and back: small tokenizers of every family, awkward texts, damaged and hostile files.
#include "core/text/tokenizer.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <random>

#include "core/io/error.h"
#include "core/io/terminal_text.h"
#include "core/text/text_steps.h"
#include "tests/core/io/temporary_folder.h"
#include "tests/support/counted_allocations.h"

namespace afterglow {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* llama_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::string utf8(char32_t code) {
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
  if (code < 0x10000)
    return {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 63)),
            static_cast<char>(0x80 | (code & 63))};
  return {static_cast<char>(0xF0 | code >> 18), static_cast<char>(0x80 | (code >> 12 & 63)),
          static_cast<char>(0x80 | (code >> 6 & 63)), static_cast<char>(0x80 | (code & 63))};
}

json byte_level(bool has_pattern) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", has_pattern}};
}

/// Every byte is a token, in the order of the characters that stand for them, and "he", "Ġt", "Ġthe" follow.
json byte_pairs() {
  json vocab = json::object();
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_itself = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    vocab[utf8(static_cast<char32_t>(is_itself ? byte : next++))] = byte;
  }
  vocab["he"] = 256;
  vocab["Ġt"] = 257;
  vocab["Ġthe"] = 258;
  return {
      {"version", "1.0"},
      {"added_tokens", json::array({{{"id", 259}, {"content", "<|end|>"}, {"special", true}}})},
      {"pre_tokenizer", byte_level(true)},
      {"decoder", byte_level(true)},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", json::array({{"h", "e"}, {"Ġ", "t"}, {"Ġt", "he"}})}}}};
}

json split_by(const json& pattern, const char* behavior, bool is_inverted = false) {
  return {{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}, {"invert", is_inverted}};
}

/// As SentencePiece writes them: ▁ for spaces, bytes of what is not in the vocabulary.
json sentence_pieces() {
  json vocab = {{"<unk>", 0}, {"<s>", 1}, {"▁", 2}, {"h", 3}, {"e", 4}, {"t", 5}, {"he", 6}, {"▁t", 7}, {"▁the", 8}};
  constexpr const char* digits = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte)
    vocab[std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">"] = 9 + byte;
  const json to_mark = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  const json to_space = {{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}};
  return {{"added_tokens", json::array({{{"id", 1}, {"content", "<s>"}, {"special", true}}})},
          {"normalizer",
           {{"type", "Sequence"}, {"normalizers", json::array({{{"type", "Prepend"}, {"prepend", "▁"}}, to_mark})}}},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", json::array({{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}})},
            {"special_tokens", {{"<s>", {{"ids", {1}}, {"tokens", {"<s>"}}}}}}}},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders", json::array({to_space,
                                      {{"type", "ByteFallback"}},
                                      {{"type", "Fuse"}},
                                      {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}})}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"vocab", vocab},
            {"merges", {"h e", "▁ t", "▁t he"}}}}};
}

class Tokenizers : public TemporaryFolder {
 protected:
  Tokenizer made(const json& content) const { return Tokenizer(put("tokenizer.json", content.dump())); }
  std::vector<std::string> tokens(const json& content, const std::string& text) const {
    return made(content).encode(text, false, true).tokens;
  }
  std::string refusal(const std::string& content) const {
    try {
      const Tokenizer tokenizer(put("tokenizer.json", content));
      tokenizer.encode("a text");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      return error.what();
    }
    return "it is encoded";
  }
  std::string refusal(const json& content) const { return refusal(content.dump()); }
};

std::vector<std::string> awkward_texts() {
  std::vector<std::string> texts = {"",
                                    " ",
                                    "the",
                                    " the the",
                                    "\n\n \t x",
                                    "don't DON'T 'ſ",
                                    "e\u0301é",
                                    "İıẞﬁ",
                                    std::string("a\0b", 3),
                                    "\u00A0\u180E\u2028\uFEFF",
                                    "👩‍👩‍👧🇩🇪",
                                    "한국어 中文 ไทย",
                                    "<|end|>the<|end|><|en",
                                    std::string(5000, 'h') + "e",
                                    std::string(3000, ' ')};
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (int length = static_cast<int>(random() % 40); length > 0; --length) {
      constexpr char32_t ends[] = {0x80, 0x250, 0x3000, 0xD800, 0x10FFFF};
      text += utf8(random() % ends[random() % 5]);
    }
    texts.push_back(is_utf8(text) ? text : "");
  }
  return texts;
}

TEST_F(Tokenizers, OfBytesGiveBackEveryText) {
  json pattern = byte_pairs(), whole = byte_pairs();
  pattern["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers", json::array({split_by({{"Regex", llama_pattern}}, "Isolated"), byte_level(false)})}};
  whole["pre_tokenizer"] = byte_level(false);
  for (const json& content : {byte_pairs(), pattern, whole}) {
    const Tokenizer tokenizer = made(content);
    for (const std::string& text : awkward_texts()) EXPECT_EQ(tokenizer.decode(tokenizer.encode(text).ids), text);
  }
}

TEST_F(Tokenizers, OfPiecesGiveBackEveryText) {
  const Tokenizer tokenizer = made(sentence_pieces());
  for (const std::string& text : awkward_texts()) {
    if (text.find("▁") != std::string::npos) continue;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, false).ids), text);
  }
}

TEST_F(Tokenizers, MergeTheLowestRankFirst) {
  EXPECT_THAT(tokens(byte_pairs(), "the the"), ElementsAre("t", "he", "Ġthe"));
  EXPECT_THAT(tokens(sentence_pieces(), "the eth é"), ElementsAre("▁the", "▁", "e", "t", "h", "▁", "<0xC3>", "<0xA9>"));
  json unmerged = byte_pairs();
  unmerged["model"]["ignore_merges"] = true;
  unmerged["model"]["vocab"]["eh"] = 400;
  EXPECT_THAT(tokens(unmerged, "eh ehe"), ElementsAre("eh", "Ġ", "e", "he"));
}

TEST_F(Tokenizers, AreTheSameWithMergesAsTextsAndAsPairs) {
  json texts = byte_pairs();
  texts["model"]["merges"] = {"#version: 0.2", "h e", "Ġ t", "Ġt he"};
  const Tokenizer one = made(texts), other = made(byte_pairs());
  for (const std::string& text : awkward_texts()) EXPECT_EQ(one.encode(text).ids, other.encode(text).ids);
}

TEST_F(Tokenizers, TakeUnknownCharactersTogetherOrOneByOne) {
  json content = sentence_pieces();
  content["model"]["byte_fallback"] = false;
  EXPECT_THAT(tokens(content, "théxxh"), ElementsAre("▁t", "h", "<unk>", "h"));
  content["model"]["fuse_unk"] = false;
  EXPECT_THAT(tokens(content, "thxxh"), ElementsAre("▁t", "h", "<unk>", "<unk>", "h"));
  content["model"]["unk_token"] = "<none>";
  EXPECT_THAT(refusal(content), HasSubstr("<none>"));
  content["model"].erase("unk_token");
  EXPECT_THAT(tokens(content, "thxxe"), ElementsAre("▁the")) << "characters without a token are left out";
}

TEST_F(Tokenizers, PutTheTemplateAroundTheText) {
  const Tokenizer tokenizer = made(sentence_pieces());
  EXPECT_THAT(tokenizer.encode("the").ids, ElementsAre(1, 8));
  EXPECT_THAT(tokenizer.encode("").ids, ElementsAre(1));
  EXPECT_THAT(tokenizer.encode("the", false).ids, ElementsAre(8));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("the the").ids), "<s> the the");
}

TEST_F(Tokenizers, FindAddedTokensBeforeWords) {
  json content = byte_pairs();
  const auto with = [&](const char* text, std::vector<std::string> flags) {
    json token = {{"id", 300}, {"content", text}};
    for (const std::string& flag : flags) token[flag] = true;
    content["added_tokens"] = json::array({token});
    return content;
  };
  EXPECT_THAT(tokens(with("he", {}), "the he"), ElementsAre("t", "he", "Ġ", "he"));
  EXPECT_THAT(tokens(with("he", {"single_word"}), "the he"), ElementsAre("t", "he", "Ġ", "he"));
  EXPECT_EQ(made(with("hx", {"single_word"})).encode("ahx hx").ids.back(), 259);
  EXPECT_THAT(tokens(with("X", {"lstrip", "rstrip"}), "t \n X  he"), ElementsAre("t", " \n X  ", "he"));
  content["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_THAT(tokens(with("T!", {"normalized"}), "T! t! "), ElementsAre("t!", "Ġ", "t!", "Ġ"));
  EXPECT_THAT(tokens(with("T!", {}), "T! t!"), ElementsAre("T!", "Ġt", "!"));
}

TEST_F(Tokenizers, NormalizeAsTheFileSays) {
  json content = sentence_pieces();
  const auto normal = [&](const json& step) {
    content["normalizer"] = step;
    const Tokenizer tokenizer = made(content);
    return tokenizer.decode(tokenizer.encode("  E\u0301ﬁ  ", false).ids);
  };
  EXPECT_EQ(normal(nullptr), " E\u0301ﬁ  ") << "the decoder strips one space";
  EXPECT_EQ(normal({{"type", "NFC"}}), " Éﬁ  ");
  EXPECT_EQ(normal({{"type", "NFKD"}}), " E\u0301fi  ");
  EXPECT_EQ(normal({{"type", "Lowercase"}}), " e\u0301ﬁ  ");
  EXPECT_EQ(normal({{"type", "NFD"}}), " E\u0301ﬁ  ");
  EXPECT_EQ(normal({{"type", "StripAccents"}}), " Eﬁ  ");
  EXPECT_EQ(normal({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}}), "E\u0301ﬁ");
  EXPECT_EQ(normal({{"type", "Replace"}, {"pattern", {{"Regex", "\\s+"}}}, {"content", "-"}}), "-E\u0301ﬁ-");
}

TEST_F(Tokenizers, MarkWhereWordsBegin) {
  json content = sentence_pieces();
  content["normalizer"] = nullptr;
  const auto marked = [&](const char* scheme, bool is_split, const std::string& text) {
    content["pre_tokenizer"] = {
        {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", is_split}};
    return tokens(content, text);
  };
  EXPECT_THAT(marked("always", true, "the<s>the"), ElementsAre("▁the", "<s>", "▁the"));
  EXPECT_THAT(marked("first", false, "the<s>the"), ElementsAre("▁the", "<s>", "t", "he"));
  EXPECT_THAT(marked("never", true, "the the"), ElementsAre("t", "he", "▁the"));
}

TEST_F(Tokenizers, DecodeBytesThatAreNoCharacters) {
  const Tokenizer bytes = made(byte_pairs());
  EXPECT_EQ(bytes.decode(std::vector<std::int32_t>{0xE2, 0x82, 'a', 0xFF, 0xC3, 0xA9}), "\uFFFDa\uFFFDé")
      << "one sign for the beginning of a character";
  EXPECT_EQ(bytes.decode(std::vector<std::int32_t>{0xF0, 0x9F, 0x99, 'z', 0x80, 0xED, 0xA0, 0x80, 0xE2, 0x82}),
            "\uFFFDz\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(bytes.decode(std::vector<std::int32_t>{'a', 9999, -1, 259}), "a<|end|>")
      << "numbers without a token are left out";
  const Tokenizer pieces = made(sentence_pieces());
  EXPECT_EQ(pieces.decode(std::vector{9 + 0xE2, 9 + 0x82, 3}), "\uFFFD\uFFFDh") << "one sign for each byte";
  json words = byte_pairs();
  words.erase("decoder");
  EXPECT_EQ(made(words).decode(std::vector{256, 258}), "he Ġthe");
}

TEST_F(Tokenizers, SplitLiteralTexts) {
  json content = byte_pairs();
  content["pre_tokenizer"] = split_by({{"String", "a.[\\]"}}, "Isolated");
  content["model"]["ignore_merges"] = true;
  content["model"]["vocab"]["a.[\\]"] = 500;
  EXPECT_THAT(tokens(content, "ha.[\\]e"), ElementsAre("h", "a.[\\]", "e"));
}

TEST(Splits, KeepOrDropWhatThePatternMatches) {
  const auto parts = [](const char* pattern, Delimiter behavior, bool is_inverted, const std::string& text) {
    std::string joined;
    for (const auto& [begin, end] : TextSplit{Regex(pattern), behavior, is_inverted}.parts(text))
      joined += (joined.empty() ? "" : "|") + text.substr(begin, end - begin);
    return joined;
  };
  const std::string text = "the-final--countdown";
  EXPECT_EQ(parts("-", Delimiter::removed, false, text), "the|final|countdown");
  EXPECT_EQ(parts("-", Delimiter::isolated, false, text), "the|-|final|-|-|countdown");
  EXPECT_EQ(parts("-", Delimiter::merged_with_previous, false, text), "the-|final-|-|countdown");
  EXPECT_EQ(parts("-", Delimiter::merged_with_next, false, text), "the|-final|-|-countdown");
  EXPECT_EQ(parts("-", Delimiter::contiguous, false, text), "the|-|final|--|countdown");
  EXPECT_EQ(parts("[a-z]+", Delimiter::removed, true, text), "the|final|countdown");
  EXPECT_EQ(parts("(?=c)", Delimiter::isolated, false, "acc"), "a||c||c");
}

TEST(Patterns, MeanWhatTheyMeanInOniguruma) {
  const auto count = [](const char* pattern, const char* text) { return Regex(pattern).matches(text).size(); };
  EXPECT_EQ(count("\\s", "\u180E"), 0u) << "no white space since Unicode 6.3";
  EXPECT_EQ(count("[^\\S\\n]", "\u0085\u3000\n"), 2u);
  EXPECT_EQ(count("^\\w+$", "e\u0301²\u203F\nb"), 2u)
      << "marks, numbers and connectors are parts of words, lines have ends";
  EXPECT_EQ(count("[[:punct:]]", "!$€-"), 4u);
  EXPECT_EQ(count("\\p{Han}", "中、"), 1u);
  EXPECT_EQ(count("\\h中", "f中"), 1u);
  EXPECT_EQ(count("(?i:'s)", "'S'ſ"), 2u);
  for (const char* wrong : {"(", "[a", "[a[b]]", "[a&&b]", "\\C", "(?<n>a)\\k<m>"})
    EXPECT_THROW(Regex{wrong}, Error) << wrong;
  EXPECT_THROW(Regex("(a+)+$").matches(std::string(60, 'a') + "b"), Error) << "its time is bounded";
}

TEST_F(Tokenizers, SayWhatTheyDoNotSupport) {
  json content = byte_pairs();
  content["model"] = {{"type", "WordPiece"}, {"vocab", {{"a", 0}}}};
  EXPECT_THAT(refusal(content), AllOf(HasSubstr("tokenizer.json"), HasSubstr("its model is WordPiece")));
  content["model"] = {{"type", "Unigram"}, {"vocab", json::array({json::array({"a", -1.0})})}};
  EXPECT_THAT(refusal(content), HasSubstr("Unigram"));
  EXPECT_EQ(made(content).tokens().front().spelling, "a") << "its tokens have names all the same";
  for (const char* part : {"normalizer", "pre_tokenizer", "post_processor"}) {
    content = byte_pairs();
    content[part] = {{"type", "Precompiled"}};
    EXPECT_THAT(refusal(content), AllOf(HasSubstr(part), HasSubstr("Precompiled")));
  }
  content = byte_pairs();
  content["decoder"] = {{"type", "CTC"}};
  const Tokenizer tokenizer = made(content);
  EXPECT_THAT(tokenizer.encode("the").ids, ElementsAre(int{'t'}, 256));
  EXPECT_THROW(tokenizer.decode(std::vector{1}), Error);
}

TEST_F(Tokenizers, RefuseTextThatIsNotUtf8) {
  const Tokenizer tokenizer = made(byte_pairs());
  for (const char* wrong : {"\xFF", "a\xC3", "\xED\xA0\x80"}) EXPECT_THROW(tokenizer.encode(wrong), Error);
}

TEST_F(Tokenizers, RefuseDamagedFiles) {
  json content = byte_pairs();
  content["model"]["merges"] = json::array({{"h", "zz"}});
  EXPECT_THAT(refusal(content), HasSubstr("zz"));
  content["model"]["merges"] = json::array({{"h"}});
  EXPECT_THAT(refusal(content), HasSubstr("a merge has 1 parts"));
  content["model"]["merges"] = {"h e t"};
  EXPECT_THAT(refusal(content), HasSubstr("a merge has 3 parts"));
  content = byte_pairs();
  content["model"]["vocab"]["x"] = -1;
  EXPECT_THAT(refusal(content), HasSubstr("\"x\""));
  content["model"]["vocab"]["x"] = 1e12;
  EXPECT_THAT(refusal(content), HasSubstr("\"x\""));
  content = byte_pairs();
  content["pre_tokenizer"] = split_by({{"Regex", "(a"}}, "Isolated");
  EXPECT_THAT(refusal(content), HasSubstr("(a"));
  content["pre_tokenizer"] = split_by({{"String", "a"}}, "Sideways");
  EXPECT_THAT(refusal(content), HasSubstr("Sideways"));
  content = sentence_pieces();
  content["post_processor"]["special_tokens"] = json::object();
  EXPECT_THAT(refusal(content), HasSubstr("<s>"));
  const std::string whole = byte_pairs().dump();
  for (std::size_t length = 0; length < whole.size(); length += 97)
    EXPECT_THAT(refusal(whole.substr(0, length)), HasSubstr("not JSON"));
}

TEST_F(Tokenizers, BoundTheMemoryOfHostileFiles) {
  const auto repeated = [](const std::string& begin, const std::string& middle, const std::string& end) {
    std::string text = begin;
    while (text.size() < std::size_t{1} << 20) text += middle;
    return text + end;
  };
  const std::string files[] = {
      repeated("", "[", ""),
      repeated("{\"model\":", "{\"vocab\":", ""),
      repeated("{\"model\":{\"vocab\":{\"a\":0},\"merges\":[", "[\"a\",\"a\"],", "[\"a\",\"a\"]]}}"),
      repeated("{\"model\":{\"vocab\":[", "[\"a\",0],", "[\"a\",0]]}}"),
      repeated("{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[", "{\"type\":\"Digits\"},",
               "{\"type\":\"Digits\"}]},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}"),
  };
  for (const std::string& content : files) {
    start_counting_memory();
    EXPECT_THAT(refusal(content), HasSubstr("tokenizer.json"));
    EXPECT_LT(max_memory_since_start(), 16 * content.size()) << content.substr(0, 60);
  }
}

}  // namespace
}  // namespace afterglow
