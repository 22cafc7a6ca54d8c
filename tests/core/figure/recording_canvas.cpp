// The recording canvas.
#include "tests/core/figure/recording_canvas.h"

#include <algorithm>

namespace afterglow {

void RecordingCanvas::text(Point place, std::string_view utf8, const TextStyle& style) {
  const double width = text_width(utf8, style.size, style.face);
  const double shift = style.anchor == Anchor::start ? 0 : style.anchor == Anchor::middle ? width / 2 : width;
  const double ascent = ascent_of_font * style.size, descent = descent_of_font * style.size;
  const Rect upright{place.x - shift, place.y - ascent, width, ascent + descent};
  const Rect turned{place.x - ascent, place.y - (width - shift), ascent + descent, width};
  texts.push_back({std::string(utf8), style.rotation == 0 ? upright : turned});
}

bool RecordingCanvas::shows(std::string_view text) const {
  return std::ranges::any_of(texts, [&](const Text& t) { return t.text == text; });
}

}  // namespace afterglow
