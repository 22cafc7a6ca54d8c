// Makes foreign text safe to show, and counts typing errors between words (restricted Damerau-Levenshtein distance).
#include "core/io/wording.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace afterglow {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// The fewest insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
std::size_t typing_errors(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = std::exchange(last, row);
  }
  return last[b.size()];
}

}  // namespace

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 80;
  std::size_t length = std::min(text.size(), longest);
  while (length > 0 && length < text.size() && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
  std::string result = "'";
  for (const char c : text.substr(0, length)) result += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
  return result + (length < text.size() ? "...'" : "'");
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  constexpr std::size_t longest_word = 100;  // no mistyped word is longer, and the cost grows with the square
  if (word.size() > longest_word) return "";
  std::size_t fewest = std::max<std::size_t>(1, word.size() / 3) + 1;
  std::string best;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > word.size() + fewest || candidate.size() + fewest < word.size()) continue;
    const std::size_t errors = typing_errors(word, candidate);
    if (errors < fewest) {
      fewest = errors;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  constexpr std::size_t shortest_part = 3, most = 5;
  std::vector<std::string> meant{nearest(word, candidates)};
  if (meant.front().empty()) meant.clear();
  if (meant.empty() && word.size() >= shortest_part) {
    std::ranges::copy_if(candidates, std::back_inserter(meant), [&](const std::string& candidate) {
      return !std::ranges::search(candidate, word, {}, lower, lower).empty();
    });
  }
  std::string list;
  for (std::size_t i = 0; i < std::min(meant.size(), most); ++i) list += (i > 0 ? " or '" : "'") + meant[i] + "'";
  return list.empty() ? "" : "; did you mean " + list + "?";
}

std::string which_there_are(std::string_view word, std::span<const std::string> candidates) {
  std::string list;
  for (const std::string& candidate : candidates) list += (list.empty() ? "; there are " : ", ") + candidate;
  return did_you_mean(word, candidates) + list;
}

}  // namespace afterglow
