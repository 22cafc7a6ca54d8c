// Advance widths of Inter 4.0 in thousandths of the size, and their sum over UTF-8 text.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "core/figure/canvas.h"
#include "core/io/embedded_text.h"
#include "core/io/named.h"

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
  static const std::vector<Run> all =
      mapped(nlohmann::json::parse(figure_data()[0].json)["runs"], [](const nlohmann::json& run) {
        return Run{run["first"].get<char32_t>(), run["regular"], run["semibold"]};
      });
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

}  // namespace

double text_width_of(std::string_view utf8, double size, FontFace face) {
  double width = 0;
  while (!utf8.empty()) {
    const char32_t c = take_character(utf8);
    width += face == FontFace::mono ? mono_width * 1000 : character_width(c, face == FontFace::semibold);
  }
  return width * size / 1000;
}

std::string printable(std::string_view text) {
  constexpr char32_t replacement = 0xfffd;
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
