// The tokens' texts and labels, from the tokenizer of a model.
#pragma once
#include <string>
#include <vector>

namespace afterglow {

class Tokenizer;

/// For each token 0 .. vocab - 1; both are empty where the file has no such token.
struct TokenNames {
  std::vector<std::string> labels;  ///< short: spaces and line ends visible, long words cut
  /// The bytes that a token adds to a text, by the file's decoder; they may be part of a character.
  std::vector<std::string> texts;
};

TokenNames token_names(const Tokenizer& tokenizer, std::size_t vocab);

}  // namespace afterglow
