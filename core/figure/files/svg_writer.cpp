// The SVG canvas: strokes become paths, heat maps become one path per colour.
#include <algorithm>
#include <cmath>
#include <map>

#include "core/figure/files/carried_recipe.h"
#include "core/figure/files/page.h"
#include "core/figure/files/xml_text.h"
#include "core/figure/summary.h"

namespace afterglow {
namespace {

constexpr const char* sans = "Inter, 'DejaVu Sans', Helvetica, Arial, sans-serif";
constexpr const char* mono = "'JetBrains Mono', 'DejaVu Sans Mono', monospace";
constexpr int max_map_cells = 160;  // per side of a heat map: keeps the file under 300 KB

// Shortest decimal within half of 10^-decimals; no locale, no exponent, no "-0".
std::string decimal(double value, int decimals) {
  constexpr double bound = 1e9;
  const double scale = std::pow(10.0, decimals);
  const auto rounded = std::llround(std::clamp(std::isfinite(value) ? value : 0, -bound, bound) * scale);
  std::string digits = std::to_string(std::abs(rounded));
  if (digits.size() <= static_cast<std::size_t>(decimals)) digits.insert(0, decimals + 1 - digits.size(), '0');
  digits.insert(digits.size() - decimals, ".");
  while (digits.back() == '0') digits.pop_back();
  if (digits.back() == '.') digits.pop_back();
  return rounded < 0 ? "-" + digits : digits;
}

std::string number(double value) { return decimal(value, 2); }

std::string attribute(const char* name, const std::string& value) {
  return std::string(" ") + name + "=\"" + value + "\"";
}

std::string hex_color(Color color) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text = "#";
  for (const int channel : {color.r, color.g, color.b}) {
    text += digits[channel >> 4];
    text += digits[channel & 15];
  }
  return text;
}

std::string paint(const char* what, Color color) {
  std::string text = attribute(what, hex_color(color));
  if (color.a != 255) text += attribute((std::string(what) + "-opacity").c_str(), decimal(color.a / 255.0, 3));
  return text;
}

// Letters, digits, '-' and '_' only, so that it can be an XML id.
std::string safe_id(const std::string& text) {
  std::string id;
  for (const char c : text) id += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '-';
  const bool starts_with_letter = !id.empty() && !(id[0] >= '0' && id[0] <= '9') && id[0] != '-';
  return starts_with_letter ? id : "figure" + (id.empty() ? id : "-" + id);
}

// No-break spaces at the ends of a span, because viewers strip plain ones.
std::string with_kept_spaces(std::string text) {
  constexpr const char* kept = "\u00a0";
  if (text.ends_with(' ')) text.replace(text.size() - 1, 1, kept);
  if (text.starts_with(' ')) text.replace(0, 1, kept);
  return text;
}

class SvgCanvas : public Canvas {
 public:
  SvgCanvas(std::string id, double pixel) : id_(std::move(id)), pixel_(pixel) {}

  void polyline(std::span<const Point> points, const Stroke& stroke) override {
    if (points.size() < 2) return;
    out_ += "<path d=\"" + path(points) + "\"" + outline(stroke) + "/>\n";
  }

  void polygon(std::span<const Point> points, Color fill) override {
    if (points.size() < 3) return;
    out_ += "<path d=\"" + path(points) + "Z\"" + paint("fill", fill) + "/>\n";
  }

  void fill_rect(const Rect& rect, double radius, Color fill) override {
    out_ += "<path d=\"" + rect_path(rect, radius) + "\"" + paint("fill", fill) + "/>\n";
  }

  void stroke_rect(const Rect& rect, double radius, const Stroke& stroke) override {
    out_ += "<path d=\"" + rect_path(rect, radius) + "\"" + outline(stroke) + "/>\n";
  }

  void fill_circle(Point centre, double radius, Color fill) override {
    out_ += "<path d=\"" + circle_path(centre, radius) + "\"" + paint("fill", fill) + "/>\n";
  }

  void stroke_circle(Point centre, double radius, const Stroke& stroke) override {
    out_ += "<path d=\"" + circle_path(centre, radius) + "\"" + outline(stroke) + "/>\n";
  }

  void text(Point place, std::string_view utf8, const TextStyle& style) override {
    begin_text(place, style);
    out_ += xml_escaped(printable(utf8)) + "</text>\n";
  }

  // One text element with relative offsets, so that the runs stay together in a viewer with another font.
  void text_runs(Point place, std::span<const TextRun> runs, double, const TextStyle& style) override {
    begin_text(place, style);
    double end = 0, rise = 0;
    for (const TextRun& run : runs) {
      out_ += "<tspan";
      if (std::abs(run.x - end) > 0.005) out_ += attribute("dx", number(run.x - end));
      if (std::abs(run.rise - rise) > 0.005) out_ += attribute("dy", number(rise - run.rise));
      if (run.size != style.size) out_ += attribute("font-size", number(run.size));
      out_ += ">" + xml_escaped(with_kept_spaces(printable(run.text))) + "</tspan>";
      end = run.x + run.width;
      rise = run.rise;
    }
    out_ += "</text>\n";
  }

  void push_clip(const Rect& rect) override {
    const std::string id = id_ + "-clip-" + std::to_string(++clips_);
    out_ += "<clipPath" + attribute("id", id) + "><path d=\"" + rect_path(rect, 0) + "\"/></clipPath>\n<g" +
            attribute("clip-path", "url(#" + id + ")") + ">\n";
  }

  void pop_clip() override { out_ += "</g>\n"; }

  // One path of horizontal strokes for each colour, equal neighbours joined: a few bytes per cell.
  void color_grid(const Rect& rect, int rows, int cols, std::span<const Color> cells) override {
    if (rows <= 0 || cols <= 0 || cells.size() < static_cast<std::size_t>(rows) * cols) return;
    std::map<std::string, std::string> paths;
    for (int row = 0; row < rows; ++row) {
      const auto line = cells.subspan(static_cast<std::size_t>(row) * cols, cols);
      for (int first = 0, last = 0; first < cols; first = last) {
        for (last = first + 1; last < cols && line[last] == line[first]; ++last) {
        }
        if (line[first].a == 0) continue;
        paths[paint("stroke", line[first])] +=
            "M" + std::to_string(first) + " " + std::to_string(row) + "h" + std::to_string(last - first);
      }
    }
    const double width = rect.width / cols, height = rect.height / rows;
    out_ += "<g" +
            attribute("transform", "translate(" + decimal(rect.x, 4) + " " + decimal(rect.y + height / 2, 4) +
                                       ") scale(" + decimal(width, 6) + " " + decimal(height, 6) + ")") +
            " stroke-width=\"1\" shape-rendering=\"crispEdges\">\n";
    for (const auto& [color, path] : paths) out_ += "<path d=\"" + path + "\"" + color + "/>\n";
    out_ += "</g>\n";
  }

  double pixel() const override { return pixel_; }
  int grid_limit() const override { return max_map_cells; }
  void begin_group(std::string_view name) override {
    out_ += "<g" + attribute("id", id_ + "-" + safe_id(std::string(name))) + ">\n";
  }
  void end_group() override { out_ += "</g>\n"; }

  std::string take() { return std::move(out_); }

 private:
  void begin_text(Point place, const TextStyle& style) {
    out_ += "<text" + attribute("x", number(place.x)) + attribute("y", number(place.y)) +
            attribute("font-size", number(style.size)) + paint("fill", style.color);
    if (style.anchor == Anchor::middle) out_ += " text-anchor=\"middle\"";
    if (style.anchor == Anchor::end) out_ += " text-anchor=\"end\"";
    if (style.face == FontFace::semibold) out_ += " font-weight=\"600\"";
    if (style.face == FontFace::mono) out_ += attribute("font-family", mono);
    if (style.rotation != 0)
      out_ += attribute("transform",
                        "rotate(" + number(-style.rotation) + " " + number(place.x) + " " + number(place.y) + ")");
    out_ += ">";
  }

  static std::string path(std::span<const Point> points) {
    std::string d;
    d.reserve(points.size() * 14);
    for (std::size_t i = 0; i < points.size(); ++i) {
      d += i == 0 ? "M" : i == 1 ? "L" : " ";
      d += number(points[i].x) + " " + number(points[i].y);
    }
    return d;
  }

  static std::string rect_path(const Rect& r, double radius) {
    const double c = std::clamp(radius, 0.0, std::min(r.width, r.height) / 2);
    if (c <= 0)
      return "M" + number(r.x) + " " + number(r.y) + "H" + number(r.right()) + "V" + number(r.bottom()) + "H" +
             number(r.x) + "Z";
    const std::string arc = "A" + number(c) + " " + number(c) + " 0 0 1 ";
    return "M" + number(r.x + c) + " " + number(r.y) + "H" + number(r.right() - c) + arc + number(r.right()) + " " +
           number(r.y + c) + "V" + number(r.bottom() - c) + arc + number(r.right() - c) + " " + number(r.bottom()) +
           "H" + number(r.x + c) + arc + number(r.x) + " " + number(r.bottom() - c) + "V" + number(r.y + c) + arc +
           number(r.x + c) + " " + number(r.y) + "Z";
  }

  static std::string circle_path(Point c, double radius) {
    const std::string arc = "A" + number(radius) + " " + number(radius) + " 0 1 1 ";
    return "M" + number(c.x - radius) + " " + number(c.y) + arc + number(c.x + radius) + " " + number(c.y) + arc +
           number(c.x - radius) + " " + number(c.y) + "Z";
  }

  static std::string outline(const Stroke& stroke) {
    std::string text = paint("stroke", stroke.color) + attribute("stroke-width", number(stroke.width));
    std::string dashes;
    for (const double length : dash_pattern(stroke.dash))
      dashes += (dashes.empty() ? "" : " ") + number(length * stroke.width);
    return dashes.empty() ? text : text + attribute("stroke-dasharray", dashes);
  }

  std::string id_;
  double pixel_;
  std::string out_;
  int clips_ = 0;
};

}  // namespace

std::string svg_text(const Figure& figure, const PageSize& wanted, const Theme& theme, const FigureView& view,
                     FigureGeometry* geometry) {
  const PageSize page = usable_page(wanted);
  SvgCanvas canvas(safe_id(figure.id), page_pixel(page));
  const FigureGeometry places = draw_page(figure, page, theme, view, canvas);
  if (geometry) *geometry = places;
  const std::string width = number(page.width_pt()), height = number(page.height_pt());
  std::string out =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\"";
  out += attribute("width", number(page.width_mm) + "mm") + attribute("height", number(page.height_mm) + "mm") +
         attribute("viewBox", "0 0 " + width + " " + height) + ">\n";
  const std::string& title = figure.heading.empty() ? figure.title : figure.heading;
  if (!title.empty()) out += "<title>" + xml_escaped(printable(title)) + "</title>\n";
  if (!figure.provenance.empty()) out += "<desc>" + xml_escaped(printable(figure.provenance)) + "</desc>\n";
  if (!figure.recipe.empty()) out += "<metadata>" + svg_recipe_element(figure.recipe) + "</metadata>\n";
  out += "<g fill=\"none\" stroke-linejoin=\"round\"" + attribute("font-family", sans) + ">\n";
  out += canvas.take() + "</g>\n</svg>\n";
  return out;
}

std::string html_picture(const Figure& figure, const PageSize& page, FigureGeometry* geometry) {
  Figure bare = figure;
  bare.recipe.clear();
  std::string svg = svg_text(bare, page, light_theme(), {}, geometry);
  svg.erase(0, std::min(svg.find("<svg"), svg.size()));
  svg.insert(std::min(std::string_view("<svg").size(), svg.size()),
             " role=\"img\" aria-label=\"" + xml_escaped(summary_of(figure)) + "\"");
  return svg;
}

}  // namespace afterglow
