// Reads UTF-8 character by character.
#include "core/io/terminal_text.h"

#include <algorithm>
#include <cstddef>

namespace afterglow {
namespace {

unsigned byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u;
}

}  // namespace

bool is_control(std::string_view text, std::size_t at) {
  const unsigned lead = byte_at(text, at), second = byte_at(text, at + 1);
  return lead < 0x20 || lead == 0x7F || (lead == 0xC2 && second >= 0x80 && second < 0xA0);
}

std::size_t utf8_length(std::string_view text, std::size_t at) {
  const unsigned lead = byte_at(text, at), second = byte_at(text, at + 1);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xC2 && lead < 0xE0   ? 2
                             : (lead & 0xF0) == 0xE0       ? 3
                             : lead >= 0xF0 && lead < 0xF5 ? 4
                                                           : 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte_at(text, at + i) & 0xC0) != 0x80) return 0;
  }
  const bool is_longer_than_needed = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool is_no_character = (lead == 0xED && second >= 0xA0) || (lead == 0xF4 && second >= 0x90);
  return is_longer_than_needed || is_no_character ? 0 : length;
}

std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string terminal_text(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at), shown = std::max<std::size_t>(length, 1);
    if (length > 0 && !is_control(text, at)) {
      result += text.substr(at, length);
    } else {
      for (std::size_t i = at; i < at + shown; ++i)
        result += {'\\', 'x', digits[byte_at(text, i) >> 4], digits[byte_at(text, i) & 15]};
    }
    at += shown;
  }
  return result;
}

bool is_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

char32_t take_character(std::string_view& text) {
  constexpr unsigned bits_of_lead[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  const std::size_t length = utf8_length(text, 0);
  char32_t character = length == 0 ? 0xFFFD : byte_at(text, 0) & bits_of_lead[length];
  for (std::size_t i = 1; i < length; ++i) character = character << 6 | (byte_at(text, i) & 0x3F);
  text.remove_prefix(std::max<std::size_t>(1, length));
  return character;
}

void append_utf8(std::string& text, char32_t character) {
  constexpr char32_t marks[] = {0, 0xC0, 0xE0, 0xF0};
  const int following = character < 0x80 ? 0 : character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
  text += static_cast<char>(marks[following] | character >> 6 * following);
  for (int i = following - 1; i >= 0; --i) text += static_cast<char>(0x80 | (character >> 6 * i & 0x3F));
}

}  // namespace afterglow
