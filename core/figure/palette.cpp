// Themes and colour maps; mixing happens in OKLab (Ottosson 2020), where equal steps look equal.
#include "core/figure/palette.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "core/io/embedded_text.h"
#include "core/io/named.h"

namespace afterglow {

/// The files of assets/figure.
std::span<const EmbeddedText> figure_data();

namespace {

struct Lab {
  double l, a, b;
};

double to_linear(std::uint8_t channel) {
  const double c = channel / 255.0;
  return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
}

std::uint8_t to_channel(double linear) {
  const double v = std::clamp(linear, 0.0, 1.0);
  const double c = v <= 0.0031308 ? 12.92 * v : 1.055 * std::pow(v, 1 / 2.4) - 0.055;
  return static_cast<std::uint8_t>(std::lround(c * 255));
}

Lab to_lab(Color c) {
  const double r = to_linear(c.r), g = to_linear(c.g), b = to_linear(c.b);
  const double l = std::cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const double m = std::cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const double s = std::cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return {0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
          1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
          0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s};
}

Color to_color(Lab v, std::uint8_t alpha) {
  const auto cube = [](double x) { return x * x * x; };
  const double l = cube(v.l + 0.3963377774 * v.a + 0.2158037573 * v.b);
  const double m = cube(v.l - 0.1055613458 * v.a - 0.0638541728 * v.b);
  const double s = cube(v.l - 0.0894841775 * v.a - 1.2914855480 * v.b);
  return {to_channel(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
          to_channel(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
          to_channel(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s), alpha};
}

Color with_lightness(Color color, double lightness) {
  Lab lab = to_lab(color);
  lab.l = lightness;
  return to_color(lab, color.a);
}

// The full end of a sequential map goes past the accent: brighter on a dark ground, darker on a light one.
Color sequential_color(const Theme& theme, double t) {
  const Color full = theme.is_dark ? rgb(0xeafff8) : rgb(0x00362c);
  const double empty_l = to_lab(theme.raised).l, accent_l = to_lab(theme.accent).l, full_l = to_lab(full).l;
  const double knee = (accent_l - empty_l) / (full_l - empty_l);  // lightness is linear over the whole map
  return t < knee ? mixed(theme.raised, theme.accent, t / knee) : mixed(theme.accent, full, (t - knee) / (1 - knee));
}

// Chroma is full half way; from there only lightness changes, so that middle values are not grey.
Color diverging_color(const Theme& theme, double t) {
  const double end_l = theme.is_dark ? 0.86 : 0.40, neutral_l = to_lab(theme.raised).l;
  const Color hue = theme.series[t < 0.5 ? 2 : 1];
  const Color middle = with_lightness(hue, (neutral_l + end_l) / 2), end = with_lightness(hue, end_l);
  const double reach = std::abs(2 * t - 1);
  return reach < 0.5 ? mixed(theme.raised, middle, 2 * reach) : mixed(middle, end, 2 * reach - 1);
}

/// The colours of a theme by name; first those of the roles after `Role::series`, in their order.
constexpr std::pair<const char*, Color Theme::*> theme_colors[] = {
    {"text", &Theme::text},         {"dim", &Theme::dim},         {"faint", &Theme::faint},
    {"accent", &Theme::accent},     {"warning", &Theme::warning}, {"failure", &Theme::failure},
    {"ground", &Theme::ground},     {"panel", &Theme::panel},     {"raised", &Theme::raised},
    {"hairline", &Theme::hairline}, {"grid", &Theme::grid}};

/// "#5fe3c0".
Color color_of(const nlohmann::json& text) {
  return rgb(static_cast<std::uint32_t>(std::stoul(text.get<std::string>().substr(1), nullptr, 16)));
}

/// Refers to the text of `fields`.
Theme theme_of(const nlohmann::json& fields) {
  Theme theme{};
  theme.name = fields["name"].get_ref<const std::string&>().c_str();
  theme.is_dark = fields["is_dark"];
  for (const auto& [name, color] : theme_colors) theme.*color = color_of(fields[name]);
  std::ranges::transform(fields["series"], theme.series.begin(), color_of);
  theme.text_scale = fields["text_scale"];
  theme.line_scale = fields["line_scale"];
  return theme;
}

const Theme& theme_at(std::size_t place) {
  static const auto data = nlohmann::json::parse(figure_data()[1].json);
  static const std::vector<Theme> themes = mapped(data, theme_of);
  return themes[place];
}

}  // namespace

Color faded(Color color, double alpha) {
  color.a = static_cast<std::uint8_t>(std::lround(color.a * std::clamp(alpha, 0.0, 1.0)));
  return color;
}

Color mixed(Color from, Color to, double t) {
  const Lab p = to_lab(from), q = to_lab(to);
  const auto between = [t](double u, double v) { return u + (v - u) * t; };
  const auto alpha = static_cast<std::uint8_t>(std::lround(between(from.a, to.a)));
  return to_color({between(p.l, q.l), between(p.a, q.a), between(p.b, q.b)}, alpha);
}

const Theme& dark_theme() { return theme_at(0); }
const Theme& light_theme() { return theme_at(1); }
const Theme& projector_theme() { return theme_at(2); }

Color ink_color(const Theme& theme, Ink ink) {
  if (ink.role != Role::series) return theme.*theme_colors[static_cast<int>(ink.role) - 1].second;
  return theme.series[static_cast<unsigned>(ink.index) % palette_size];
}

Dash ink_dash(Ink ink) {
  constexpr std::array<Dash, palette_size> dashes = {Dash::solid,  Dash::dashed,   Dash::long_dash,
                                                     Dash::dotted, Dash::dash_dot, Dash::short_dash};
  return ink.role == Role::series ? dashes[static_cast<unsigned>(ink.index) % palette_size] : Dash::solid;
}

Marker ink_marker(Ink ink) {
  constexpr std::array<Marker, palette_size> markers = {Marker::circle,      Marker::square,        Marker::diamond,
                                                        Marker::triangle_up, Marker::triangle_down, Marker::hexagon};
  return ink.role == Role::series ? markers[static_cast<unsigned>(ink.index) % palette_size] : Marker::circle;
}

Color map_color(const Theme& theme, ColourMap map, double t) {
  const double place = t >= 0 ? std::min(t, 1.0) : 0.0;  // NaN counts as 0; callers mark such cells
  return map == ColourMap::sequential ? sequential_color(theme, place) : diverging_color(theme, place);
}

Color flaw_color(const Theme& theme) { return theme.failure; }

}  // namespace afterglow
