// The steps of a tokenizer file before and after its model: normalizers, pre-tokenizers and decoders, made from JSON.
#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace afterglow {

/// Bytes [begin, end) of a text.
struct TextRange {
  std::size_t begin = 0, end = 0;
};

class Regex {
 public:
  /// Throws Error(bad_input) that names a pattern which is not valid or uses what PCRE2 has not.
  explicit Regex(const std::string& pattern);

  /// All matches from left to right, none overlapping; an empty one only where no match ends. `text` is UTF-8. Throws
  /// Error(bad_input) for a pattern that needs too much time or memory.
  std::vector<TextRange> matches(std::string_view text) const;

 private:
  std::string pattern_;
  std::shared_ptr<void> code_;
};

/// Appends what a piece of text becomes to `out`. `is_first`: the piece begins the whole text.
using Rewrite = std::function<void(std::string_view piece, bool is_first, std::string& out)>;

/// What becomes of the delimiters, which a pattern matches.
enum class Delimiter { removed, isolated, merged_with_previous, merged_with_next, contiguous };

struct TextSplit {
  Regex pattern;
  Delimiter behavior = Delimiter::isolated;
  bool is_inverted = false;  ///< the pattern matches what lies between delimiters

  /// The parts of `text` in order; some may be empty.
  std::vector<TextRange> parts(std::string_view text) const;
};

using TextStep = std::variant<Rewrite, TextSplit>;

/// Changes the texts of tokens. With `is_whole` bytes that are no UTF-8 become U+FFFD; else they stay, for the text of
/// one token, which may be part of a character.
using DecoderStep = std::function<void(std::vector<std::string>& tokens, bool is_whole)>;

/// Each reads the object of that name in a tokenizer.json; null gives no steps. Throws Error(bad_input) that names a
/// kind or field that is not supported or is damaged. The steps of a normalizer are rewrites.
std::vector<TextStep> read_normalizer(const nlohmann::json& described);
std::vector<TextStep> read_pre_tokenizer(const nlohmann::json& described);
std::vector<DecoderStep> read_decoder(const nlohmann::json& described);

}  // namespace afterglow
