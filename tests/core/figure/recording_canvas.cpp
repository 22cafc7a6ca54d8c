// The recording canvas.
#include "tests/core/figure/recording_canvas.h"

#include <algorithm>

namespace afterglow {

void RecordingCanvas::text(Point place, std::string_view utf8, const TextStyle& style) {
  const double width = text_width(utf8, style.size, style.face);
  const double shift = shift_of(style.anchor, width);
  const double ascent = ascent_of_font * style.size, descent = descent_of_font * style.size;
  const Rect upright{place.x - shift, place.y - ascent, width, ascent + descent};
  const Rect turned{place.x - ascent, place.y - (width - shift), ascent + descent, width};
  texts.push_back({std::string(utf8), style.rotation == 0 ? upright : turned});
}

void RecordingCanvas::text_runs(Point place, std::span<const TextRun> runs, double width, const TextStyle& style) {
  std::string whole;
  for (const TextRun& run : runs) whole += (run.rise > 0 ? "^" : run.rise < 0 ? "_" : "") + run.text;
  texts_in_pieces.push_back(whole);
  Canvas::text_runs(place, runs, width, style);
}

bool RecordingCanvas::shows(std::string_view text) const {
  return std::ranges::count(texts_in_pieces, text) > 0 ||
         std::ranges::any_of(texts, [&](const Text& t) { return t.text == text; });
}

}  // namespace afterglow
