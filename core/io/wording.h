// Words in messages: foreign text made safe to show, and "did you mean ..." for a mistyped word.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace afterglow {

/// A space, tabulator or end of a line.
bool is_blank(char c);
/// The text without blanks at both ends.
std::string_view trimmed(std::string_view text);

/// Text from a file as a message shows it: in quotes, control characters as '?', cut after 80 bytes.
std::string in_quotes(std::string_view text);

/// The candidate with the fewest typing errors (a letter more, less or other, two swapped; case is ignored) if they are
/// at most a third of the word's letters, or one; else "". The first of equals wins.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// "; did you mean 'x'?" for the nearest candidate, else up to five that hold the word, or "" if there is neither.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);
/// The same and all of them: "; did you mean 'x'?; there are w, x, y".
std::string which_there_are(std::string_view word, std::span<const std::string> candidates);

}  // namespace afterglow
