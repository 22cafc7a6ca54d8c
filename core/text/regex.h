// Regular expressions of tokenizer files, in the syntax of Oniguruma, matched by PCRE2.
#pragma once
#include <memory>
#include <string>
#include <string_view>
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

}  // namespace afterglow
