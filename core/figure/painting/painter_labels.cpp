// Names of series: at the ends of their curves where there is room, otherwise in a legend.
#include <algorithm>
#include <cmath>

#include "core/figure/math/math_text.h"
#include "core/figure/painting/painter.h"
#include "core/figure/readout.h"

namespace afterglow {
namespace {

constexpr std::size_t max_curve_labels = 8;
constexpr double max_right_room = 0.36;  // of the width of the area
constexpr double end_zone = 0.82;  // a curve that ends right of this share of the plot may have its label in the margin

double text_height(const Painter& p) { return (ascent_of_font + descent_of_font) * p.m.text; }
double label_gap(const Painter& p) { return 0.6 * p.m.text; }

std::string label_text(const Line& line) {
  if (line.is_quiet) return "";
  if (line.is_outlined) return line.end_value.empty() ? "B" : "B " + line.end_value;
  return line.end_value.empty() ? line.name : line.name.empty() ? line.end_value : line.name + " " + line.end_value;
}

// End of the visible part of a curve: its last finite point, or the right edge of the plot when it continues there.
std::optional<Point> curve_end(const Painter& p, const Line& line) {
  const CurveView curve(line.curve);
  const AxisTransform& x = p.layout.x;
  const AxisTransform& y = p.layout.y;
  const Rect& plot = p.layout.plot;
  const auto place = [&](std::size_t i) { return Point{x.to_canvas(curve.x(i)), y.to_canvas(curve.y(i))}; };
  std::size_t last = curve.size();
  const Range x_seen{x.to_data(plot.x - 1), x.to_data(plot.right() + 1)};
  const Range y_seen{y.to_data(plot.bottom() + 1), y.to_data(plot.y - 1)};
  if (curve.is_sorted()) {
    last = curve.first_not_below(x.range().high);
    if (last < curve.size() && last > 0) {
      const Point a = place(last - 1), b = place(last);
      const double t = b.x > a.x ? std::clamp((plot.right() - a.x) / (b.x - a.x), 0.0, 1.0) : 0;
      const double height = a.y + t * (b.y - a.y);
      if (std::isfinite(height) && height >= plot.y - 1 && height <= plot.bottom() + 1)
        return Point{a.x + t * (b.x - a.x), std::clamp(height, plot.y, plot.bottom())};
    }
  }
  for (std::size_t back = 0; back < std::min<std::size_t>(last, 4096); ++back) {
    const std::size_t i = last - 1 - back;
    const double at_x = curve.x(i), at_y = curve.y(i);
    if (at_x >= x_seen.low && at_x <= x_seen.high && at_y >= y_seen.low && at_y <= y_seen.high) return place(i);
  }
  return std::nullopt;
}

bool goes_to_margin(const Painter& p, Point end, double width) {
  const Rect& plot = p.layout.plot;
  const bool fits_inside = end.x + label_gap(p) + width <= plot.right() - 0.3 * p.m.text;
  return !fits_inside && end.x >= plot.x + end_zone * plot.width;
}

template <typename Visit>
void for_each_named_line(const Painter& p, Visit&& visit) {
  for (std::size_t i = 0; i < p.figure.series.size(); ++i) {
    const auto* line = std::get_if<Line>(&p.figure.series[i]);
    if (line && is_shown(p.figure.series[i], p.view) && !label_text(*line).empty()) visit(i, *line);
  }
}

bool is_crowded(const Painter& p, std::size_t labels) {
  return labels > max_curve_labels || static_cast<double>(labels) * text_height(p) > 0.9 * p.layout.plot.height;
}

// Spreads labels that share a column so that none overlaps, moving them as little as possible: neighbours that touch
// form a block at the mean of their preferred positions (pool adjacent violators).
void spread(std::vector<PlacedLabel*>& column, double low, double high) {
  std::ranges::sort(column, [](const auto* a, const auto* b) { return a->rect.y < b->rect.y; });
  struct Block {
    double wish_sum;
    std::size_t first, count;
  };
  if (column.empty()) return;
  const double text = column.front()->rect.height;
  const double height = text * std::clamp((high - low) / (text * static_cast<double>(column.size())), 1.01, 1.15);
  const double block_limit = high;
  const auto top_of = [&](const Block& b) {
    const double length = b.count * height;
    return std::clamp(b.wish_sum / b.count, low, std::max(low, block_limit - length));
  };
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < column.size(); ++i) {
    blocks.push_back({column[i]->rect.y, i, 1});
    while (blocks.size() > 1 &&
           top_of(blocks[blocks.size() - 2]) + blocks[blocks.size() - 2].count * height > top_of(blocks.back())) {
      const Block lower = blocks.back();
      blocks.pop_back();
      Block& upper = blocks.back();
      upper.wish_sum += lower.wish_sum - lower.count * (upper.count * height);
      upper.count += lower.count;
    }
  }
  for (const Block& block : blocks) {
    for (std::size_t i = 0; i < block.count; ++i) {
      PlacedLabel& label = *column[block.first + i];
      const double y = top_of(block) + i * height;
      label.has_leader = std::abs(y - label.rect.y) > 0.55 * height;
      label.rect.y = y;
    }
  }
}

// Places a label inside the plot without ink under it: right of the curve's end, or above or below it.
bool place_inside(const Painter& p, PlacedLabel& label, const Occupancy& ink) {
  const Rect& plot = p.layout.plot;
  const double gap = label_gap(p), height = label.rect.height, width = label.rect.width;
  const Point e = label.curve_end;
  const Point corners[] = {{e.x + gap, e.y - height / 2},
                           {e.x + gap, e.y - height - 0.2 * gap},
                           {e.x + gap, e.y + 0.2 * gap},
                           {e.x - width, e.y - height - gap},
                           {e.x - width, e.y + gap},
                           {e.x - width - 2 * gap, e.y - 2 * height},
                           {e.x - width - 2 * gap, e.y + height}};
  for (const Point corner : corners) {
    const Rect rect{corner.x, corner.y, width, height};
    if (!is_inside(rect, plot) || !ink.is_free(rect)) continue;
    label.rect = rect;
    return true;
  }
  return false;
}

double swatch_width(const Painter& p) { return 1.9 * p.m.text; }

// Entries without positions. A single scatter or bar series needs no legend: the title describes it.
std::vector<PlacedLabel> legend_entries(const Painter& p, const std::vector<PlacedLabel>& labelled,
                                        LegendNames names = LegendNames::whole) {
  std::vector<PlacedLabel> entries;
  std::size_t named = 0;
  bool has_line = false;
  for (std::size_t i = 0; i < p.figure.series.size(); ++i) {
    const Series& series = p.figure.series[i];
    if (std::holds_alternative<HeatMap>(series) || !is_shown(series, p.view)) continue;
    const auto* line = std::get_if<Line>(&series);
    std::string text = is_outlined(series) ? "" : line ? label_text(*line) : series_name(series);
    if (text.empty()) continue;
    if (names == LegendNames::stems) text = stem_of(text);
    ++named;
    if (std::ranges::find(labelled, i, &PlacedLabel::series) != labelled.end()) continue;
    has_line = has_line || line;
    PlacedLabel entry;
    entry.series = i;
    entry.is_legend = true;
    const double rest = p.width("+9", p.m.text) + 1.2 * p.m.text;  // the entry for the names without room
    const double most = p.layout.area.right() - p.m.gap - p.layout.plot.x - swatch_width(p) - label_gap(p) - rest;
    // A number that is cut short would be another one.
    const bool drops_value = line && !line->name.empty() && p.width(text, p.m.text) > most;
    entry.text = fitted_math(p.canvas, drops_value ? line->name : text, most, p.m.text, FontFace::regular);
    entry.is_cut = entry.text != text;
    entry.rect = {0, 0, swatch_width(p) + label_gap(p) + p.width(entry.text, p.m.text), p.m.text * line_height_of_font};
    entries.push_back(entry);
  }
  const bool is_wanted = has_line || named > 1 || p.figure.labels == LabelPlacement::legend;
  return is_wanted ? entries : std::vector<PlacedLabel>{};
}

// The legend as one block, and its possible positions in the plot.
class LegendBox {
 public:
  LegendBox(const Painter& p, const std::vector<PlacedLabel>& entries) : plot_(p.layout.plot), air_(0.7 * p.m.text) {
    row_ = entries.front().rect.height;
    for (const PlacedLabel& entry : entries) column_ = std::max(column_, entry.rect.width);
    // One column where the plot is tall enough, else as many as needed.
    const double most = std::max(1.0, std::floor((plot_.height - 2 * air_) / row_));
    const double columns = std::ceil(static_cast<double>(entries.size()) / most);
    rows_ = static_cast<std::size_t>(std::ceil(static_cast<double>(entries.size()) / columns));
    width_ = columns * column_ + (columns - 1) * gap();
    height_ = row_ * static_cast<double>(rows_);
  }

  bool fits() const { return width_ + 2 * air_ <= plot_.width && height_ + 2 * air_ <= plot_.height; }

  std::vector<Rect> places() const {
    const double left = plot_.x + air_, right = plot_.right() - air_ - width_, middle = (left + right) / 2;
    const double top = plot_.y + air_, bottom = plot_.bottom() - air_ - height_, centre = (top + bottom) / 2;
    std::vector<Rect> out;
    for (const Point corner : {Point{right, top},
                               {left, top},
                               {left, bottom},
                               {right, bottom},
                               {middle, top},
                               {middle, bottom},
                               {right, centre},
                               {left, centre}}) {
      out.push_back({corner.x - rim(), corner.y - rim(), width_ + 2 * rim(), height_ + 2 * rim()});
    }
    return out;
  }

  void put(std::vector<PlacedLabel>& entries, const Rect& place) const {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      entries[i].rect.x = place.x + rim() + static_cast<double>(i / rows_) * (column_ + gap());
      entries[i].rect.y = place.y + rim() + static_cast<double>(i % rows_) * row_;
    }
  }

 private:
  double rim() const { return 0.3 * air_; }
  double gap() const { return 1.5 * air_; }

  Rect plot_;
  double air_, width_ = 0, row_ = 0, height_ = 0, column_ = 0;
  std::size_t rows_ = 1;
};

void draw_swatch(const Painter& p, const PlacedLabel& label, double strength) {
  const Series& series = p.figure.series[label.series];
  const double middle = label.rect.y + label.rect.height / 2, width = swatch_width(p);
  const Point ends[] = {{label.rect.x, middle}, {label.rect.x + width, middle}};
  const Point centre{label.rect.x + width / 2, middle};
  if (const auto* line = std::get_if<Line>(&series)) {
    const Color color = faded(ink_color(p.theme, line->ink), strength);
    p.canvas.polyline(ends, {color, std::clamp(line->width, 0.1, 6.0) * p.m.line,
                             line->dash == Dash::automatic ? ink_dash(line->ink) : line->dash});
    const Marker marker = line->marker == Marker::automatic ? ink_marker(line->ink) : line->marker;
    draw_marker(p.canvas, marker, centre, 3 * p.m.unit, color);
  } else if (const auto* scatter = std::get_if<Scatter>(&series)) {
    const Ink ink = scatter->points.empty() ? Ink(0) : scatter->points.front().ink;
    const Marker marker = scatter->marker == Marker::automatic ? ink_marker(ink) : scatter->marker;
    draw_marker(p.canvas, marker, centre, 4 * p.m.unit, faded(ink_color(p.theme, ink), strength));
  } else if (const auto* bars = std::get_if<Bars>(&series)) {
    const Ink ink = bars->bars.empty() ? Ink(0) : bars->bars.front().ink;
    p.canvas.fill_rect({centre.x - 0.35 * p.m.text, middle - 0.35 * p.m.text, 0.7 * p.m.text, 0.7 * p.m.text}, 0,
                       faded(ink_color(p.theme, ink), strength));
  }
}

Color label_color(const Painter& p, const PlacedLabel& label, double strength) {
  const auto* line = std::get_if<Line>(&p.figure.series[label.series]);
  return faded(line && !label.is_legend ? ink_color(p.theme, line->ink) : p.theme.text, strength);
}

/// Adds the entry "+3" for the names without room; removes further entries until it fits.
void count_the_rest(const Painter& p, std::vector<PlacedLabel>& placed, std::size_t all, double right, double gap) {
  PlacedLabel rest;
  rest.is_legend = rest.is_rest = true;
  for (;;) {
    rest.text = "+" + std::to_string(all - placed.size());
    const double width = p.width(rest.text, p.m.text);
    const PlacedLabel last = placed.back();
    rest.rect = {last.rect.right() + gap, last.rect.y, width, last.rect.height};
    if (rest.rect.right() <= right || placed.size() == 1) break;
    placed.pop_back();
  }
  placed.push_back(rest);
}

}  // namespace

std::optional<double> right_room_for_labels(const Painter& p) {
  double room = 0;
  std::size_t count = 0;
  for_each_named_line(p, [&](std::size_t, const Line& line) {
    count += !line.is_outlined;
    const double width = p.width(label_text(line), p.m.text);
    const auto end = curve_end(p, line);
    if (end && goes_to_margin(p, *end, width)) room = std::max(room, width + 2 * label_gap(p));
  });
  const double limit = p.figure.labels == LabelPlacement::at_curves ? 0.6 : max_right_room;
  if (is_crowded(p, count) || room > limit * p.layout.area.width) return std::nullopt;
  return room;
}

std::optional<std::vector<PlacedLabel>> labels_at_curves(const Painter& p, Occupancy& ink) {
  const Rect& plot = p.layout.plot;
  std::vector<PlacedLabel> labels;
  bool all_placed = true;
  for_each_named_line(p, [&](std::size_t series, const Line& line) {
    const auto end = curve_end(p, line);
    const auto ends_there = [&](const PlacedLabel& other) {
      return std::hypot(other.curve_end.x - end->x, other.curve_end.y - end->y) < 2 * p.m.line;
    };
    if (!end) return;
    // Those of B come last: where there is room, and no curve of A ends at the same place.
    if (line.is_outlined && (is_crowded(p, labels.size() + 1) || std::ranges::any_of(labels, ends_there))) return;
    PlacedLabel label;
    label.series = series;
    label.text = label_text(line);
    label.curve_end = *end;
    label.rect = {plot.right() + label_gap(p), end->y - text_height(p) / 2, p.width(label.text, p.m.text),
                  text_height(p)};
    if (label.rect.right() > p.layout.area.right() || !goes_to_margin(p, *end, label.rect.width)) {
      const bool is_placed = place_inside(p, label, ink);
      if (!is_placed && line.is_outlined) return;
      all_placed = all_placed && is_placed;
      ink.add_rect(label.rect);
    }
    labels.push_back(label);
  });
  if (!all_placed) return std::nullopt;
  std::vector<PlacedLabel*> margin;
  for (PlacedLabel& label : labels) {
    if (label.rect.x >= plot.right()) margin.push_back(&label);
  }
  spread(margin, plot.y - 0.3 * p.m.text, plot.bottom() + 0.3 * p.m.text);
  return labels;
}

std::optional<std::vector<PlacedLabel>> legend_inside(const Painter& p, const std::vector<PlacedLabel>& labelled,
                                                      Occupancy& ink, bool covers_reference_labels) {
  std::vector<PlacedLabel> entries = legend_entries(p, labelled);
  if (entries.empty()) return entries;
  if (!covers_reference_labels && std::ranges::any_of(entries, &PlacedLabel::is_cut)) return std::nullopt;
  const LegendBox box(p, entries);
  if (!box.fits()) return std::nullopt;
  Occupancy taken = ink;
  if (!covers_reference_labels) reserve_reference_labels(p, taken);
  for (const Rect& place : box.places()) {
    if (!taken.is_free(place)) continue;
    box.put(entries, place);
    ink.add_rect(place);
    return entries;
  }
  return std::nullopt;
}

LegendAbove legend_above(const Painter& p, LegendNames names, std::size_t most_rows) {
  std::vector<PlacedLabel> entries = legend_entries(p, {}, names);
  const Rect& area = p.layout.area;
  const double left = p.layout.plot.x, right = area.right() - p.m.gap, gap = 1.2 * p.m.text;
  LegendAbove legend;
  double x = left, y = p.layout.top_of_legend;
  for (PlacedLabel& entry : entries) {
    const bool starts_row = legend.rows == 0 || x + entry.rect.width > right;
    if (starts_row && legend.rows == most_rows) break;
    if (starts_row && legend.rows > 0) y += entry.rect.height;
    if (starts_row) x = left;
    legend.rows += starts_row;
    entry.rect.x = x;
    entry.rect.y = y;
    x += entry.rect.width + gap;
    legend.entries.push_back(entry);
  }
  if (legend.entries.empty()) return legend;
  legend.height = y + legend.entries.front().rect.height - p.layout.top_of_legend + 0.4 * p.m.text;
  if (legend.entries.size() < entries.size()) count_the_rest(p, legend.entries, entries.size(), right, gap);
  return legend;
}

void draw_labels(const Painter& p, const std::vector<PlacedLabel>& labels, FigureGeometry& geometry) {
  p.canvas.begin_group("labels");
  for (const PlacedLabel& label : labels) {
    if (label.is_rest) {
      p.text({label.rect.x, label.rect.y + label.rect.height / 2 + 0.36 * p.m.text}, label.text, p.theme.faint,
             p.m.text, Anchor::start);
      continue;
    }
    const double strength = p.strength(series_name(p.figure.series[label.series]));
    const double baseline = label.rect.y + label.rect.height / 2 + 0.36 * p.m.text;
    double x = label.rect.x;
    if (label.is_legend) {
      draw_swatch(p, label, strength);
      x += swatch_width(p) + label_gap(p);
    } else if (label.has_leader) {
      const Point leader[] = {label.curve_end, {label.rect.x - 0.2 * p.m.text, label.rect.y + label.rect.height / 2}};
      p.canvas.polyline(leader, {label_color(p, label, 0.5 * strength), 0.8 * p.m.line, Dash::solid});
    }
    p.text({x, baseline}, label.text, label_color(p, label, strength), p.m.text, Anchor::start);
    geometry.labels.push_back({label.series, label.rect});
  }
  p.canvas.end_group();
}

}  // namespace afterglow
