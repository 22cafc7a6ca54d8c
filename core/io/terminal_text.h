// UTF-8, character by character, and foreign text made safe for a terminal: names of files, titles of recipes,
// arguments.
#pragma once
#include <string>
#include <string_view>

namespace afterglow {

/// One line: control characters, which could move the cursor or change colours, and bytes that are not UTF-8 become
/// escapes such as \x1b.
std::string terminal_text(std::string_view text);

/// Whether a control character begins at `at`.
bool is_control(std::string_view text, std::size_t at);

/// In single quotes, inside which a shell expands nothing.
std::string shell_quoted(std::string_view text);

/// Bytes of the UTF-8 character at `at`; 0 for invalid bytes.
std::size_t utf8_length(std::string_view text, std::size_t at);
/// Whether all of it is UTF-8.
bool is_utf8(std::string_view text);
/// The next character of UTF-8 text, removed from its front. Invalid bytes give U+FFFD, one byte at a time. `text` must
/// not be empty.
char32_t take_character(std::string_view& text);
/// Appends one character as UTF-8.
void append_utf8(std::string& text, char32_t character);

}  // namespace afterglow
