// Makes short labels of tokens that show spaces and line ends.
#include "core/tasks/token_labels.h"

#include <algorithm>
#include <string_view>

#include "core/io/terminal_text.h"
#include "core/text/tokenizer.h"

namespace afterglow {

namespace {

constexpr std::size_t longest_label = 8;  // characters

/// The first character of a text that is not empty, or its first byte where that is invalid UTF-8.
std::string_view first_character(std::string_view text) {
  return text.substr(0, std::max<std::size_t>(1, utf8_length(text, 0)));
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

}  // namespace

TokenNames token_names(const Tokenizer& tokenizer, std::size_t vocab) {
  TokenNames names{std::vector<std::string>(vocab), std::vector<std::string>(vocab)};
  for (const Tokenizer::Token& token : tokenizer.tokens()) {
    if (token.id >= vocab) continue;
    // The label of a token that is only part of a character is its form in the file.
    names.labels[token.id] = label_of(token.has_text && is_utf8(token.text) ? token.text : token.spelling);
    names.texts[token.id] = token.text;
  }
  return names;
}

}  // namespace afterglow
