// Typesets from left to right: plain characters collect in runs, markup changes the position of the next run.
#include "core/figure/math/math_text.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numbers>

namespace afterglow {
namespace {

constexpr double script_size = 0.72, smallest_script = 0.5;  // of the text
constexpr double script_rise = 0.36, script_drop = 0.17;     // of the base
constexpr double axis_height = 0.29;                         // height of the bar of a fraction
constexpr double rule_thickness = 0.065;
constexpr std::string_view minus = "\u2212", root_sign = "√", bar_sign = "\u203e";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// The first character of the text with all its bytes.
std::string_view first_character(std::string_view text) {
  std::string_view rest = text;
  take_character(rest);
  return text.substr(0, text.size() - rest.size());
}

bool is_greek(std::string_view character) {
  const char32_t c = take_character(character);
  return c >= 0x370 && c <= 0x3ff;
}

/// Bytes of the sign at the front; 0 where there is no sign.
std::size_t sign_length(std::string_view text) {
  if (text.starts_with(minus)) return minus.size();
  return text.starts_with('-') || text.starts_with('+') ? 1 : 0;
}

/// Bytes of the number at the front: digits with at most one point between them.
std::size_t number_length(std::string_view text) {
  std::size_t end = 0;
  bool has_point = false;
  while (end < text.size()) {
    const bool is_point = text[end] == '.' && !has_point && end > 0 && end + 1 < text.size() && is_digit(text[end + 1]);
    if (!is_digit(text[end]) && !is_point) break;
    has_point = has_point || is_point;
    ++end;
  }
  return end;
}

/// Bytes of the word at the front: letters, digits and Greek.
std::size_t word_length(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size()) {
    const std::string_view character = first_character(text.substr(end));
    if (!is_word(text[end]) && !is_greek(character)) break;
    end += character.size();
  }
  return end;
}

/// The text between the brace at the front and its closing brace; nullopt without a closing brace.
std::optional<std::string_view> braced(std::string_view text) {
  if (!text.starts_with('{')) return std::nullopt;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '{' ? 1 : text[i] == '}' ? -1 : 0;
    if (depth == 0) return text.substr(1, i - 1);
  }
  return std::nullopt;
}

/// What a script mark at the front raises or lowers, and its length with the mark.
struct Operand {
  std::string_view text;
  std::size_t length = 0;
};

std::optional<Operand> operand_of(std::string_view marked) {
  const std::string_view text = marked.substr(1);
  if (const auto inner = braced(text)) return Operand{*inner, inner->size() + 3};
  const std::size_t sign = sign_length(text);
  const std::string_view body = text.substr(sign);
  std::size_t length = number_length(body);
  if (length == 0 || word_length(body) > length) length = std::max(length, word_length(body));
  if (length == 0 && sign == 0 && !body.empty() && static_cast<unsigned char>(body[0]) >= 0x80)
    length = first_character(body).size();
  if (length == 0) return std::nullopt;
  return Operand{text.substr(0, sign + length), sign + length + 1};
}

/// Whether a script may follow: there is a base, which for an underscore is a name of one letter.
bool may_have_script(std::string_view before, char mark) {
  if (before.empty() || before.back() == ' ') return false;
  if (mark == '^' || !is_word(before.back())) return true;
  return before.size() == 1 ||
         (!is_word(before[before.size() - 2]) && before[before.size() - 2] != '_' && before[before.size() - 2] != '.');
}

/// A number with an exponent at the front of the text: "2.5e−4".
struct PowerOfTen {
  std::string_view factor, exponent;
  std::size_t length = 0;
};

std::optional<PowerOfTen> power_of_ten(std::string_view before, std::string_view text) {
  const bool is_inside = !before.empty() && (is_word(before.back()) || before.back() == '_' || before.back() == '.');
  const std::size_t factor = is_inside ? 0 : number_length(text);
  if (factor == 0 || factor >= text.size() || text[factor] != 'e') return std::nullopt;
  const std::string_view exponent = text.substr(factor + 1);
  const std::size_t sign = sign_length(exponent), digits = number_length(exponent.substr(sign));
  const std::size_t end = sign + digits;
  if (digits == 0 || digits > 3 || (end < exponent.size() && (is_word(exponent[end]) || exponent[end] == '_')))
    return std::nullopt;
  return PowerOfTen{text.substr(0, factor), exponent.substr(0, end), factor + 1 + end};
}

/// "+04" is "4", "−04" is "−4".
std::string exponent_text(std::string_view exponent) {
  const bool is_negative = exponent.starts_with(minus) || exponent.starts_with('-');
  std::string_view digits = exponent.substr(sign_length(exponent));
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  return (is_negative ? std::string(minus) : "") + std::string(digits);
}

class Pen {
 public:
  Pen(const Canvas& canvas, FontFace face, double whole_size) : canvas_(canvas), face_(face), whole_(whole_size) {}

  void write(std::string_view markup, double size, double rise) {
    std::size_t at = 0;
    while (at < markup.size()) at += write_next(markup.substr(0, at), markup.substr(at), size, rise);
    flush(size, rise);
  }

  MathText take() {
    text_.width = x_;
    return std::move(text_);
  }

 private:
  /// Typesets the element at the front of `rest`; returns its length.
  std::size_t write_next(std::string_view before, std::string_view rest, double size, double rise) {
    if (const auto power = power_of_ten(before, rest)) {
      plain_ += power->factor == "1" ? "10" : std::string(power->factor) + "×10";
      flush(size, rise);
      script(exponent_text(power->exponent), size, rise + script_rise * size);
      return power->length;
    }
    if (const std::size_t scripts = write_scripts(before, rest, size, rise)) return scripts;
    if (const auto fraction = fraction_at(rest)) {
      flush(size, rise);
      write_fraction(*fraction, size, rise);
      return fraction->length;
    }
    for (const std::string_view sign : {root_sign, bar_sign}) {
      const auto inner = rest.starts_with(sign) ? braced(rest.substr(sign.size())) : std::nullopt;
      if (!inner) continue;
      if (sign == root_sign) plain_ += root_sign;
      flush(size, rise);
      write_under_rule(*inner, size, rise);
      return sign.size() + inner->size() + 2;
    }
    const std::string_view character = first_character(rest);
    plain_ += character;
    return character.size();
  }

  /// Typesets one script, or two that share their base; returns the length of their markup.
  std::size_t write_scripts(std::string_view before, std::string_view rest, double size, double rise) {
    std::size_t taken = 0;
    double end = 0, start = 0;
    char last = 0;
    for (int i = 0; i < 2 && taken < rest.size(); ++i) {
      const char mark = rest[taken];
      const bool is_mark = (mark == '^' || mark == '_') && mark != last;
      const auto operand =
          is_mark && (taken > 0 || may_have_script(before, mark)) ? operand_of(rest.substr(taken)) : std::nullopt;
      if (!operand) break;
      if (taken == 0) {
        flush(size, rise);
        start = x_;
      }
      x_ = start;
      script(operand->text, size, rise + (mark == '^' ? script_rise : -script_drop) * size);
      end = std::max(end, x_);
      taken += operand->length;
      last = mark;
    }
    if (taken > 0) x_ = end;
    return taken;
  }

  void script(std::string_view markup, double size, double rise) {
    write(markup, std::max(smallest_script * whole_, script_size * size), rise);
  }

  void write_fraction(const Fraction& fraction, double size, double rise) {
    const double small = std::max(smallest_script * whole_, 0.86 * size), thickness = rule_thickness * size;
    const double above = math_width(canvas_, fraction.above, small, face_),
                 below = math_width(canvas_, fraction.below, small, face_);
    const double air = 0.12 * size, width = std::max(above, below) + 2 * air, start = x_,
                 bar = rise + axis_height * size;
    x_ = start + (width - above) / 2;
    write(fraction.above, small, bar + 0.22 * size);
    x_ = start + (width - below) / 2;
    write(fraction.below, small, bar - 0.14 * size - ascent_of_font * small);
    text_.rules.push_back({start + air / 2, bar, width - air, thickness});
    x_ = start + width;
  }

  void write_under_rule(std::string_view inner, double size, double rise) {
    const double start = x_, thickness = rule_thickness * size, height = rise + 0.9 * size;
    write(inner, size, rise);
    text_.rules.push_back({start, height, x_ - start, thickness});
    text_.ascent = std::max(text_.ascent, height + thickness);
  }

  void flush(double size, double rise) {
    if (plain_.empty()) return;
    const double width = canvas_.text_width(plain_, size, face_);
    text_.runs.push_back({std::move(plain_), x_, rise, size, width});
    plain_.clear();
    x_ += width;
    text_.ascent = std::max(text_.ascent, rise + ascent_of_font * size);
    text_.descent = std::max(text_.descent, descent_of_font * size - rise);
  }

  const Canvas& canvas_;
  FontFace face_;
  double whole_;
  MathText text_;
  std::string plain_;
  double x_ = 0;
};

/// A fast test without false negatives: most texts have no mathematics.
bool may_be_math(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '^' || text[i] == '_' || text[i] == '{') return true;
    if (text[i] == 'e' && i > 0 && is_digit(text[i - 1])) return true;
  }
  return false;
}

}  // namespace

std::optional<Fraction> fraction_at(std::string_view text) {
  const auto above = braced(text);
  if (!above || !text.substr(above->size() + 2).starts_with("/{")) return std::nullopt;
  const auto below = braced(text.substr(above->size() + 3));
  if (!below) return std::nullopt;
  return Fraction{*above, *below, above->size() + below->size() + 5};
}

MathText set_math(std::string_view markup, double size, FontFace face, const Canvas& canvas) {
  Pen pen(canvas, face, size);
  pen.write(markup, size, 0);
  return pen.take();
}

double math_width(const Canvas& canvas, std::string_view markup, double size, FontFace face) {
  return may_be_math(markup) ? set_math(markup, size, face, canvas).width : canvas.text_width(markup, size, face);
}

std::string fitted_math(const Canvas& canvas, std::string_view markup, double width, double size, FontFace face) {
  if (math_width(canvas, markup, size, face) <= width) return std::string(markup);
  std::string_view kept = markup;
  const auto drop_character = [&kept] {
    while (!kept.empty() && (static_cast<unsigned char>(kept.back()) & 0xc0) == 0x80) kept.remove_suffix(1);
    if (!kept.empty()) kept.remove_suffix(1);
  };
  // By halves first: text as long as a book would be measured as often as it has characters.
  while (kept.size() > 256) {
    const std::string_view whole = kept;
    kept = kept.substr(0, kept.size() / 2);
    drop_character();
    if (math_width(canvas, kept, size, face) > width) continue;
    kept = whole;
    break;
  }
  do {  // a cut inside braces would display them
    drop_character();
    while (!kept.empty() && (kept.back() == '^' || kept.back() == '_' || kept.back() == '{')) kept.remove_suffix(1);
  } while (!kept.empty() && (std::ranges::count(kept, '{') != std::ranges::count(kept, '}') ||
                             math_width(canvas, std::string(kept) + "…", size, face) > width));
  return std::string(kept) + "…";
}

std::vector<std::string> wrapped_math(const Canvas& canvas, std::string_view markup, double width, double size,
                                      FontFace face) {
  std::vector<std::string> lines;
  while (!markup.empty()) {
    const std::size_t end = std::min(markup.find(' '), markup.size());
    const std::string word(markup.substr(0, end));
    markup.remove_prefix(std::min(end + 1, markup.size()));
    const std::string longer = lines.empty() ? word : lines.back() + " " + word;
    if (!lines.empty() && (lines.back().empty() || math_width(canvas, longer, size, face) <= width)) {
      lines.back() = longer;
    } else {
      lines.push_back(word);
    }
  }
  for (std::string& line : lines) line = fitted_math(canvas, line, width, size, face);
  return lines;
}

void draw_math(Canvas& canvas, Point place, std::string_view markup, const TextStyle& style) {
  if (!may_be_math(markup)) return canvas.text(place, markup, style);
  const MathText text = set_math(markup, style.size, style.face, canvas);
  canvas.text_runs(place, text.runs, text.width, style);
  const double shift = shift_of(style.anchor, text.width);
  const double angle = style.rotation * std::numbers::pi / 180, c = std::cos(angle), s = std::sin(angle);
  const auto at = [&](double along, double up) {
    return Point{place.x + along * c - up * s, place.y - along * s - up * c};
  };
  for (const TextRule& rule : text.rules) {
    const Point ends[] = {at(rule.x - shift, rule.rise), at(rule.x - shift + rule.width, rule.rise)};
    canvas.polyline(ends, {style.color, rule.thickness, Dash::solid});
  }
}

}  // namespace afterglow
