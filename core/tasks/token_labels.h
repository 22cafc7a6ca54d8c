// The tokens' texts and labels, and the tokens of a text, from the tokenizer of a model.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace afterglow {

class Task;
class Tokenizer;

/// For each token 0 .. vocab - 1; both are empty where the file has no such token.
struct TokenNames {
  std::vector<std::string> labels;  ///< short: spaces and line ends visible, long words cut
  /// The bytes that a token adds to a text, by the file's decoder; they may be part of a character.
  std::vector<std::string> texts;
};

TokenNames token_names(const Tokenizer& tokenizer, std::size_t vocab);

/// The tokens of a text. A vocabulary that lacks the bytes which merges begin with gives none: then the longest tokens
/// that the text begins with, one after the other. Empty where that fails, too.
std::vector<int> tokens_of_text(const Tokenizer& tokenizer, std::string_view text, std::size_t vocab);

/// The tokens of a text for a task's model: by its tokenizer, without one as the task writes them. Throws
/// Error(bad_input) where a task of token numbers has no tokenizer, and for tokens that the model does not know.
std::vector<int> tokens_of_prompt(const Task& task, const std::string& text);

}  // namespace afterglow
