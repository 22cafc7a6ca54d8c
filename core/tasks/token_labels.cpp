// Reads the vocabulary of a tokenizer.json: byte-level pairs, pieces of words, or words.
#include "core/tasks/token_labels.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/io/atomic_file.h"
#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/io/terminal_text.h"

namespace afterglow {

namespace {

using nlohmann::json;

constexpr std::size_t largest_tokenizer = std::size_t{128} << 20;
constexpr std::size_t longest_label = 8;  // characters

/// The first character of a text that is not empty, or its first byte where that is invalid UTF-8.
std::string_view first_character(std::string_view text) {
  return text.substr(0, std::max<std::size_t>(1, utf8_length(text, 0)));
}

/// The form in which a tokenizer file stores its tokens.
enum class Spelling : std::uint8_t { bytes, pieces, word_parts, words };

/// Tokens with their numbers, as the file lists them.
using Vocabulary = std::vector<std::pair<std::uint64_t, std::string>>;

/// The form by the file's decoder, or else by its tokens.
Spelling spelling_of(const json& content, const Vocabulary& vocabulary) {
  constexpr struct {
    Spelling spelling;
    const char *decoder, *begin;
  } known[] = {
      {Spelling::pieces, "▁", "▁"}, {Spelling::bytes, "ByteLevel", "Ġ"}, {Spelling::word_parts, "WordPiece", "##"}};
  const std::string decoder = content.value("decoder", json()).dump() + content.value("pre_tokenizer", json()).dump();
  for (const auto& one : known)
    if (decoder.find(one.decoder) != std::string::npos) return one.spelling;
  for (const auto& one : known)
    if (std::ranges::any_of(vocabulary, [&](const auto& token) { return token.second.starts_with(one.begin); }))
      return one.spelling;
  return Spelling::words;
}

/// The characters with which a byte-level tokenizer writes bytes: printable ones of Latin-1 by themselves, the others
/// from U+0100 on.
std::string from_byte_level(std::string_view token) {
  static const std::map<std::string, char, std::less<>> bytes = [] {
    std::map<std::string, char, std::less<>> all;
    unsigned next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool is_itself = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
      const unsigned code = is_itself ? byte : next++;
      const std::string character =
          code < 0x80 ? std::string{static_cast<char>(code)}
                      : std::string{static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
      all[character] = static_cast<char>(byte);
    }
    return all;
  }();
  std::string text;
  while (!token.empty()) {
    const std::string_view character = first_character(token);
    const auto found = bytes.find(character);
    text += found != bytes.end() ? std::string{found->second} : std::string(character);
    token.remove_prefix(character.size());
  }
  return text;
}

std::string text_of(std::string_view token, Spelling spelling) {
  constexpr std::string_view space = "▁", part = "##";
  if (spelling == Spelling::bytes) return from_byte_level(token);
  if (spelling == Spelling::word_parts && token.starts_with(part)) return std::string(token.substr(part.size()));
  if (spelling != Spelling::pieces) return " " + std::string(token);
  if (unsigned byte = 0; token.size() == 6 && token.starts_with("<0x") &&
                         std::from_chars(token.data() + 3, token.data() + 5, byte, 16).ptr == token.data() + 5)
    return {static_cast<char>(byte)};
  std::string text;
  for (; !token.empty(); token.remove_prefix(first_character(token).size()))
    text += first_character(token) == space ? " " : first_character(token);
  return text;
}

/// Replaces spaces, tabs and line ends by signs that the window's fonts have.
std::string visible(std::string_view character) {
  if (character == " ") return "·";
  if (character == "\n") return "↓";
  if (character == "\t") return "→";
  if (character.size() == 1 && (character[0] < 0x20 || character[0] == 0x7F)) return "?";
  return std::string(character);
}

std::string label_of(std::string_view text) {
  std::string label;
  for (std::size_t characters = 1; !text.empty(); ++characters) {
    const std::string_view character = first_character(text);
    text.remove_prefix(character.size());
    if (characters == longest_label && !text.empty()) return label + "…";
    label += visible(character);
  }
  return label;
}

void add(Vocabulary& vocabulary, const json& id, const json& token) {
  if (id.is_number_unsigned() && token.is_string()) vocabulary.emplace_back(id, token);
}

/// The tokens of "model": an object of numbers, or a list of tokens with their scores, in the order of their numbers.
Vocabulary vocabulary_of(const json& tokens) {
  Vocabulary vocabulary;
  for (const auto& [token, id] : tokens.items()) {
    if (tokens.is_object()) add(vocabulary, id, token);
    if (tokens.is_array() && id.is_array() && !id.empty()) add(vocabulary, std::stoull(token), id[0]);
  }
  return vocabulary;
}

}  // namespace

TokenNames read_token_names(const std::filesystem::path& path, std::size_t vocab) {
  const auto is_shallow = [](int depth, json::parse_event_t, json&) { return depth < 64; };
  const json content = json::parse(read_file(path, largest_tokenizer), is_shallow, false);
  const json model = content.is_object() ? content.value("model", json()) : json();
  const json tokens = model.is_object() ? model.value("vocab", json()) : json();
  if (!tokens.is_structured())
    throw Error(ExitCode::bad_input, path.string() +
                                         ": there is no vocabulary in it (\"model\", \"vocab\"); give the "
                                         "tokenizer.json of the model, or take it out of the folder");
  const Vocabulary own = vocabulary_of(tokens);
  const Spelling spelling = spelling_of(content, own);
  TokenNames names{std::vector<std::string>(vocab), std::vector<std::string>(vocab)};
  for (const auto& [id, token] : own) {
    if (id >= vocab) continue;
    const std::string& text = names.texts[id] = text_of(token, spelling);
    // The label of a token that is only part of a character is its form in the file.
    const bool is_shown = (spelling == Spelling::bytes || spelling == Spelling::pieces) && is_utf8(text);
    names.labels[id] = label_of(is_shown ? text : token);
  }
  Vocabulary added;  // stored as plain text
  for (const json& token : content.value("added_tokens", json::array()))
    if (token.is_object()) add(added, token.value("id", json()), token.value("content", json()));
  for (const auto& [id, token] : added) {
    if (id < vocab) names.labels[id] = label_of(names.texts[id] = token);
  }
  return names;
}

}  // namespace afterglow
