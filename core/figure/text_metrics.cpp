// Advance widths of Inter 4.0 in thousandths of the size, and their sum over UTF-8 text.
#include "core/figure/text_metrics.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "core/io/embedded_text.h"

namespace afterglow {

/// The files of assets/figure.
std::span<const EmbeddedText> figure_data();

namespace {

/// Widths of consecutive characters from `first` on.
struct Run {
  char32_t first;
  std::vector<double> regular, semibold;
};

/// In the order of their characters.
const std::vector<Run>& runs() {
  static const std::vector<Run> all = [] {
    std::vector<Run> read;
    for (const nlohmann::json& run : nlohmann::json::parse(figure_data()[0].json)["runs"])
      read.push_back({run["first"].get<char32_t>(), run["regular"], run["semibold"]});
    return read;
  }();
  return all;
}

constexpr double mono_width = 0.6;

double character_width(char32_t c, bool semibold) {
  if (c < 0x20 || (c >= 0x300 && c <= 0x36f)) return 0;  // control characters and combining accents
  const Run& run = *std::prev(std::ranges::upper_bound(runs(), c, {}, &Run::first));
  const std::vector<double>& widths = semibold ? run.semibold : run.regular;
  if (c - run.first < widths.size()) return widths[c - run.first];
  return c >= 0x2e80 ? 1000 : 640;  // full-width scripts and emoji; otherwise about a capital letter
}

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

constexpr char32_t replacement = 0xfffd;

}  // namespace

double text_width_of(std::string_view utf8, double size, FontFace face) {
  double width = 0;
  while (!utf8.empty()) {
    const char32_t c = take_character(utf8);
    width += face == FontFace::mono ? mono_width * 1000 : character_width(c, face == FontFace::semibold);
  }
  return width * size / 1000;
}

char32_t take_character(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const int length = lead < 0x80                   ? 1
                     : lead >= 0xc2 && lead < 0xe0 ? 2
                     : lead >= 0xe0 && lead < 0xf0 ? 3
                     : lead >= 0xf0 && lead < 0xf5 ? 4
                                                   : 0;
  char32_t c = length == 1 ? lead : length > 1 ? lead & (0xffu >> (length + 1)) : replacement;
  bool valid = length > 0 && text.size() >= static_cast<std::size_t>(length);
  for (int i = 1; valid && i < length; ++i) {
    valid = continues(text[i]);
    c = (c << 6) | (static_cast<unsigned char>(text[i]) & 0x3f);
  }
  // Overlong forms, surrogates and values past the end of Unicode are not characters.
  valid = valid && !(length == 3 && c < 0x800) && !(length == 4 && (c < 0x10000 || c > 0x10ffff)) &&
          !(c >= 0xd800 && c <= 0xdfff);
  text.remove_prefix(valid ? length : 1);
  return valid ? c : replacement;
}

void append_utf8(std::string& text, char32_t c) {
  const auto push = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (c < 0x80) return push(c);
  if (c < 0x800) {
    push(0xc0 | c >> 6);
  } else {
    if (c < 0x10000) {
      push(0xe0 | c >> 12);
    } else {
      push(0xf0 | c >> 18);
      push(0x80 | (c >> 12 & 0x3f));
    }
    push(0x80 | (c >> 6 & 0x3f));
  }
  push(0x80 | (c & 0x3f));
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const char32_t c = take_character(text);
    const bool control = c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xfffe || c == 0xffff;
    append_utf8(out, control ? replacement : c);
  }
  return out;
}

}  // namespace afterglow
