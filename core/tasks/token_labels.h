// What a tokenizer calls its tokens, from the tokenizer.json that lies beside a model.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace afterglow {

/// Of each token 0 .. vocab - 1, both empty where the file has no such token.
struct TokenNames {
  std::vector<std::string> labels;  ///< short: spaces and line ends visible, long words cut
  /// The bytes that a token adds to a text, one token's not always whole characters; as the file's decoder says it.
  std::vector<std::string> texts;
};

/// Throws Error(bad_input) for a file that is no tokenizer.json.
TokenNames read_token_names(const std::filesystem::path& path, std::size_t vocab);

}  // namespace afterglow
