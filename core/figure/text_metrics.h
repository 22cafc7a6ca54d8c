// Width of a text without a font library, from a table of Inter's advance widths.
#pragma once
#include <string>
#include <string_view>

#include "core/io/terminal_text.h"

namespace afterglow {

enum class FontFace { regular, semibold, mono };

/// Width of UTF-8 text in units of `size`, from the built-in table (Inter regular and semibold; 0.6 em per character
/// for the monospaced face). Within 3 % of the real fonts for Latin, Greek and the mathematics used here.
double text_width_of(std::string_view utf8, double size, FontFace face);

constexpr double ascent_of_font =
    0.75;  ///< height of capitals and digits over the baseline, in units of the size, with a small margin
constexpr double descent_of_font = 0.24;  ///< depth below the baseline
constexpr double line_height_of_font = 1.35;

/// Valid UTF-8 without control characters, as all figure files need: those and invalid bytes become U+FFFD.
std::string printable(std::string_view text);

}  // namespace afterglow
