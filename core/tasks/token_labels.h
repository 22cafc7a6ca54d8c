// The tokens' texts, from the tokenizer.json in the folder of a model.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace afterglow {

/// For each token 0 .. vocab - 1; both are empty where the file has no such token.
struct TokenNames {
  std::vector<std::string> labels;  ///< short: spaces and line ends visible, long words cut
  /// The bytes that a token adds to a text, by the file's decoder; they may be part of a character.
  std::vector<std::string> texts;
};

/// Throws Error(bad_input) for a file that is not a tokenizer.json.
TokenNames read_token_names(const std::filesystem::path& path, std::size_t vocab);

}  // namespace afterglow
