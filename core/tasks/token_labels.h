// What tokens are called where they are shown, by the tokenizer.json that lies beside a model or by their number.
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace afterglow {

/// A short label for each token 0 .. vocab - 1, empty where the file says none: spaces and line ends visible, long
/// words cut. Throws Error(bad_input) for a file that is no tokenizer.json.
std::vector<std::string> read_token_labels(const std::filesystem::path& path, std::size_t vocab);

/// "#17": a token without a label of its own, as texts may write it, too.
std::string token_number(int token);
/// Of labels by token; its number where there is none: a model's vocabulary may be larger than its task's.
std::string label_among(std::span<const std::string> labels, int token);

}  // namespace afterglow
