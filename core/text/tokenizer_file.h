// Reads a tokenizer.json without its long lists in memory as JSON.
#pragma once
#include <cstdint>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <utility>

namespace afterglow {

/// The tokens of a model with their numbers.
using Vocabulary = std::unordered_map<std::string, std::uint32_t>;

struct TokenizerFile {
  nlohmann::json content;  ///< all but the model's vocabulary and merges; fields that are null are left out
  Vocabulary vocabulary;
  std::deque<std::pair<std::string, std::string>> merges;  ///< in order of rank
};

/// Throws Error(bad_input) for a file that is not JSON, holds more than 128 MiB, or has no vocabulary.
TokenizerFile read_tokenizer_file(const std::filesystem::path& path);

/// The member of that name, or null.
const nlohmann::json& member(const nlohmann::json& object, const char* name);

}  // namespace afterglow
