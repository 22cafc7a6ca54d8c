// Translates the few escapes that mean other things in PCRE2, compiles with its JIT, and finds all matches.
#include <algorithm>

#include "core/io/error.h"
#include "core/io/terminal_text.h"
#include "core/text/text_steps.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace afterglow {
namespace {

constexpr std::size_t longest_pattern = std::size_t{1} << 16;

template <class... What>
[[noreturn]] void refuse(const std::string& pattern, const What&... why) {
  throw BadInput("the regular expression \"", terminal_text(pattern.substr(0, 200)), "\" is not supported: ", why...);
}

/// What is written otherwise for PCRE2, outside and inside of brackets; nullptr: it has no such thing.
constexpr struct Translation {
  std::string_view from;
  const char *outside, *inside;
} translations[] = {
    {"\\s", "\\p{White_Space}", "\\p{White_Space}"},
    {"\\S", "\\P{White_Space}", "\\P{White_Space}"},
    {"\\w", R"([\p{Alphabetic}\p{M}\p{N}\p{Pc}])", R"(\p{Alphabetic}\p{M}\p{N}\p{Pc})"},
    {"\\W", R"([^\p{Alphabetic}\p{M}\p{N}\p{Pc}])", nullptr},
    {"\\h", "[0-9A-Fa-f]", "0-9A-Fa-f"},
    {"\\H", "[^0-9A-Fa-f]", nullptr},
    {"\\p{Han}", "\\p{sc:Han}", "\\p{sc:Han}"},  // PCRE2 means the wider script extensions
    {"[:punct:]", "[:punct:]", "\\p{P}\\p{S}"},
    {"[:", "[:", "[:"},
    {"[", "[", nullptr},
    {"&&", "&&", nullptr},
};

std::string translated(const std::string& pattern) {
  std::string out;
  bool is_inside = false;
  for (std::string_view rest = pattern; !rest.empty();) {
    const auto* known =
        std::ranges::find_if(translations, [&](const Translation& one) { return rest.starts_with(one.from); });
    if (known != std::end(translations)) {
      const char* text = is_inside ? known->inside : known->outside;
      if (text == nullptr) refuse(pattern, "\"", known->from, "\" inside brackets");
      out += text;
      is_inside = is_inside || known->from[0] == '[';
      rest.remove_prefix(known->from.size());
    } else {
      if (rest[0] == ']') is_inside = false;
      const std::size_t length = rest[0] == '\\' ? 2 : 1;
      out += rest.substr(0, length);
      rest.remove_prefix(std::min(length, rest.size()));
    }
  }
  return out;
}

}  // namespace

Regex::Regex(const std::string& pattern) : pattern_(pattern) {
  if (pattern.size() > longest_pattern) refuse(pattern, "it is longer than 65,536 bytes");
  const std::string text = translated(pattern);
  constexpr std::uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  int problem = 0;
  std::size_t at = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), options, &problem, &at, {});
  unsigned char said[256] = {};
  if (code == nullptr && pcre2_get_error_message(problem, said, sizeof said) != 0)
    refuse(pattern, reinterpret_cast<const char*>(said));
  code_ = {code, [](void* one) { pcre2_code_free(static_cast<pcre2_code*>(one)); }};
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it the interpreter matches
}

std::vector<TextRange> Regex::matches(std::string_view text) const {
  thread_local const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> place_of_match(
      pcre2_match_data_create(1, nullptr), &pcre2_match_data_free);
  std::vector<TextRange> found;
  for (std::size_t at = 0; at <= text.size();) {
    const int result =
        pcre2_match(static_cast<const pcre2_code*>(code_.get()), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                    at, PCRE2_NO_UTF_CHECK, place_of_match.get(), nullptr);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) refuse(pattern_, "it takes too much time or memory to match");
    const std::size_t* place = pcre2_get_ovector_pointer(place_of_match.get());
    if (place[0] == place[1] && !found.empty() && found.back().end == place[1]) {
      at += utf8_length(text, at);  // 1 at the end
    } else {
      found.push_back({place[0], place[1]});
      at = place[1];
    }
  }
  return found;
}

}  // namespace afterglow
