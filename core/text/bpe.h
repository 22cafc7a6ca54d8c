// Byte pair encoding: a word becomes the tokens into which its characters merge, the pair of lowest rank first.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace afterglow {

/// The tokens of a model with their numbers.
using Vocabulary = std::unordered_map<std::string, std::uint32_t>;

class BytePairs {
 public:
  struct Options {
    std::optional<std::string> unknown;  ///< the token of characters that are not in the vocabulary
    std::string prefix, suffix;          ///< of characters inside a word, of the last one
    bool fuses_unknown = false, falls_back_to_bytes = false, ignores_merges = false;
  };

  /// `vocabulary` must outlive this object.
  BytePairs(const Vocabulary& vocabulary, Options options);
  /// The merge of the next rank. Throws Error(bad_input) where a part or the whole is not in the vocabulary.
  void add_merge(const std::string& left, const std::string& right);

  /// Appends the tokens of one word, which is UTF-8. Not for several threads at once. Throws Error(bad_input) where
  /// the unknown token is needed and is not in the vocabulary.
  void encode(std::string_view word, std::vector<std::int32_t>& out);

 private:
  struct Merge {
    std::uint32_t rank, token;
  };
  struct Symbol {
    std::uint32_t token;
    int previous, next;
    bool is_merged = false;
  };
  struct Remembered {
    std::string word;
    std::vector<std::int32_t> tokens;
  };

  std::uint32_t token_of(const std::string& token, const char* use) const;
  void read_characters(std::string_view word);
  void merge_symbols();
  void encode_part(std::string_view part, std::vector<std::int32_t>& out);

  const Vocabulary& vocabulary_;
  Options options_;
  std::uint32_t rank_ = 0;  ///< of the next merge
  std::unordered_map<std::uint64_t, Merge> merges_;
  std::unordered_set<std::uint64_t> joined_;       ///< two characters that are neighbours in the result of a merge
  std::vector<Vocabulary::const_iterator> bytes_;  ///< <0x00> to <0xFF>; empty without a fall-back to bytes
  std::vector<Symbol> symbols_;
  std::vector<Remembered> cache_;
};

}  // namespace afterglow
