// Makes short labels of tokens that show spaces and line ends.
#include "core/tasks/token_labels.h"

#include <algorithm>

#include "core/io/error.h"
#include "core/io/terminal_text.h"
#include "core/tasks/task.h"
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

std::vector<int> tokens_of_text(const Tokenizer& tokenizer, std::string_view text, std::size_t vocab) {
  std::vector<int> tokens = tokenizer.encode(text).ids;
  if (!tokens.empty()) return tokens;
  const std::vector<std::string> texts = token_names(tokenizer, vocab).texts;
  while (!text.empty()) {
    std::size_t best = texts.size(), longest = 0;
    for (std::size_t token = 0; token < texts.size(); ++token) {
      if (texts[token].size() <= longest || !text.starts_with(texts[token])) continue;
      best = token;
      longest = texts[token].size();
    }
    if (best == texts.size()) return {};
    tokens.push_back(static_cast<int>(best));
    text.remove_prefix(longest);
  }
  return tokens;
}

std::vector<int> tokens_of_prompt(const Task& task, const std::string& text) {
  const Tokenizer* tokenizer = task.tokenizer();
  if (tokenizer == nullptr && task.name() == "ids")
    throw BadInput("this model has no tokenizer.json that can be read, so text has no tokens here; give token numbers");
  const std::vector<int> tokens = tokenizer == nullptr
                                      ? task.tokens_of(text)
                                      : tokens_of_text(*tokenizer, text, static_cast<std::size_t>(task.vocab()));
  if (tokens.empty()) throw BadInput("the text has no tokens; give a longer one");
  const int last = *std::ranges::max_element(tokens);
  if (last >= task.vocab())
    throw BadInput("token ", last, " of the text is not among the model's ", task.vocab(),
                   "; the tokenizer is another model's");
  return tokens;
}

}  // namespace afterglow
