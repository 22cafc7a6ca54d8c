// Text with simple mathematics, typeset alike on the screen, in SVG, PDF and PNG: scripts, powers of ten, fractions,
// roots and bars become runs of plain text and thin rules.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/figure/canvas.h"

namespace afterglow {

/// A thin horizontal line, as of a fraction or a root, relative to the start of the text.
struct TextRule {
  double x = 0;
  double rise = 0;  ///< of its middle over the baseline
  double width = 0;
  double thickness = 0;
};

/// A text as it is drawn.
struct MathText {
  std::vector<TextRun> runs;
  std::vector<TextRule> rules;
  double width = 0;
  double ascent = 0;   ///< over the baseline
  double descent = 0;  ///< below it
};

/// Typesets a text with this markup:
/// - `x^2`, `lag^−0.73`, `e^{−t/τ}`: above; `A_w`, `λ_max`, `y_{t+1}`: below; both after one base are stacked.
///   A script is a sign with a number or a word, one sign such as ½, or a group in braces. An underscore inside a name
///   of several letters (`learning_rate`) is plain text.
/// - `1e−4`, `2.5e6`: powers of ten.
/// - `{a}/{b}`: a fraction; `√{a}`: a root; `‾{a}`: a bar above.
/// Everything else, incomplete markup too, is plain text. CSV and JSON files keep the markup. Widths come from
/// `canvas`.
MathText set_math(std::string_view markup, double size, FontFace face, const Canvas& canvas);

/// A fraction at the front of markup: "{a}/{b}".
struct Fraction {
  std::string_view above, below;
  std::size_t length = 0;  ///< of its markup
};
std::optional<Fraction> fraction_at(std::string_view markup);

/// How wide the text will be.
double math_width(const Canvas& canvas, std::string_view markup, double size, FontFace face);

/// The markup, cut at the end with "…" so that it is at most `width` wide; nothing is cut within a script.
std::string fitted_math(const Canvas& canvas, std::string_view markup, double width, double size, FontFace face);

/// Words broken into lines of at most `width`; a word that is wider is cut.
std::vector<std::string> wrapped_math(const Canvas& canvas, std::string_view markup, double width, double size,
                                      FontFace face);

/// Draws the text; `place` and `style` as of Canvas::text.
void draw_math(Canvas& canvas, Point place, std::string_view markup, const TextStyle& style);

}  // namespace afterglow
