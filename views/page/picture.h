// The small pictures of presets: a few numbers of a figure, drawn without axes.
#pragma once
#include <string_view>

#include "core/figure/canvas.h"

namespace afterglow {

/// Draws a picture (assets/presets/README.md) into `area`; nothing for an empty text.
void draw_picture(Canvas& canvas, const Theme& theme, const Rect& area, std::string_view picture);

}  // namespace afterglow
