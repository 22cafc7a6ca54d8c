// What a tokenizer calls its tokens, from the tokenizer.json that lies beside a model.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace afterglow {

/// A short label for each token 0 .. vocab - 1, empty where the file says none: spaces and line ends visible, long
/// words cut. Throws Error(bad_input) for a file that is no tokenizer.json.
std::vector<std::string> read_token_labels(const std::filesystem::path& path, std::size_t vocab);

}  // namespace afterglow
