// Margins from the widths of the labels. Ticks determine margins, margins the size of the plot, and that the ticks, so
// the computation is repeated until the margins stay.
#include "core/figure/layout.h"

#include <algorithm>
#include <cmath>

#include "core/figure/math/math_text.h"
#include "core/figure/readout.h"

namespace afterglow {
namespace {

constexpr double smallest_plot = 8;
constexpr int max_rounds = 8;
constexpr double widest_tick = 0.35;  // share of the area: longer names are cut with "…"

class Layouter {
 public:
  Layouter(const Figure& figure, const Theme& theme, const FigureView& view, const Rect& area, const LabelRoom& room,
           const Canvas& canvas)
      : figure_(figure),
        view_(view),
        room_(room),
        canvas_(canvas),
        m_(theme, view),
        ranges_(figure_ranges(figure, view)) {
    out_.area = area;
    out_.has_heat_map = ranges_.has_heat_map;
    out_.has_legend_above = room.top > 0;
    if (out_.has_heat_map) ranges_.x_axis.scale = ranges_.y_axis.scale = Scale::linear;
  }

  FigureLayout run() {
    place_titles();
    prepare_color_bars();
    settle_margins();
    if (!out_.titles.empty() && is_cramped()) {
      out_.titles.clear();
      out_.top_of_legend = out_.area.y;
      top_ = std::max(room_.top, 0.5 * m_.text + m_.gap);
      settle_margins();
    }
    if (is_cramped() || view_.is_bare) make_bare();
    place_color_bars();
    return std::move(out_);
  }

 private:
  bool is_cramped() const { return out_.plot.height < 3 * m_.text || out_.plot.width < 4 * m_.text; }

  // Where not even the numbers of the axes fit, the plot takes the whole area.
  void make_bare() {
    const Rect& area = out_.area;
    const double air = std::min({m_.gap, 0.1 * area.width, 0.1 * area.height});
    out_.plot = {area.x + air, area.y + air, std::max(area.width - 2 * air, 1e-3),
                 std::max(area.height - 2 * air, 1e-3)};
    out_.is_bare = true;
    out_.color_bars.clear();
    make_transforms();
    out_.x_ticks.clear();
    out_.y_ticks.clear();
  }

  void settle_margins() {
    left_ = right_ = m_.gap;
    // Margins only grow, so that after the last round no label is wider than its margin.
    bool is_settled = false;
    for (int round = 0; round < max_rounds && !is_settled; ++round) {
      const double left = left_, right = right_;
      settle();
      is_settled = left_ <= left && right_ <= right;
    }
  }

  double width(const std::string& text, double size) const {
    return math_width(canvas_, text, size, FontFace::regular);
  }

  void place_titles() {
    const Rect& area = out_.area;
    double y = area.y + m_.gap;
    const auto add = [&](const std::string& text, double size, FontFace face, bool is_subtitle) {
      for (const std::string& line : wrapped_math(canvas_, text, area.width - 2 * m_.gap, size, face)) {
        y += size * line_height_of_font;
        out_.titles.push_back({line, {area.x + m_.gap, y - size * 0.35}, is_subtitle});
      }
    };
    if (view_.show_title) {
      add(figure_.heading.empty() ? figure_.title : figure_.heading, m_.title, FontFace::semibold, false);
      add(figure_.subtitle, m_.text, FontFace::regular, true);
      if (!out_.titles.empty()) y += 0.7 * m_.text;
    }
    out_.top_of_legend = y;
    top_ = std::max(y - area.y + room_.top, 0.5 * m_.text + m_.gap);
  }

  void prepare_color_bars() {
    for (std::size_t i = 0; i < figure_.series.size(); ++i) {
      const auto* map = std::get_if<HeatMap>(&figure_.series[i]);
      if (!map || !is_shown(figure_.series[i], view_)) continue;
      ColorBarLayout bar;
      bar.series = i;
      if (is_complete(*map))
        bar.shows_flaws = std::ranges::any_of(
            map->cells.span(), [&](double v) { return !std::isfinite(v) && !(std::isnan(v) && map->nan_is_blank); });
      out_.color_bars.push_back(bar);
    }
  }

  void settle() {
    const Rect& area = out_.area;
    bars_width_ = 0;
    for (ColorBarLayout& bar : out_.color_bars) bars_width_ += color_bar_width(bar);
    const double bottom = m_.gap + m_.text * line_height_of_font +
                          (axis_title(figure_.x).empty() ? 0 : m_.text * line_height_of_font) + 0.3 * m_.text;
    const double right = std::max(right_, room_.right + m_.gap) + bars_width_;
    out_.plot = {area.x + left_, area.y + top_, std::max(smallest_plot, area.width - left_ - right),
                 std::max(smallest_plot, area.height - top_ - bottom)};
    make_transforms();
    choose_ticks_of_both();
    place_axis_titles();
  }

  void make_transforms() {
    Range x = ranges_.x, y = ranges_.y;
    Rect& plot = out_.plot;
    const bool is_linear = ranges_.x_axis.scale == Scale::linear && ranges_.y_axis.scale == Scale::linear;
    if (figure_.equal_aspect && is_linear) {
      const double unit = std::min(plot.width / (x.high - x.low), plot.height / (y.high - y.low));
      if (out_.has_heat_map) {
        shrink_to((x.high - x.low) * unit, (y.high - y.low) * unit);
      } else if (unit > 0 && std::isfinite(unit)) {
        x = around(x, plot.width / unit);
        y = around(y, plot.height / unit);
      }
    }
    const double x_threshold = symlog_threshold(ranges_.x_axis, ranges_.x_data);
    const double y_threshold = symlog_threshold(ranges_.y_axis, ranges_.y_data);
    out_.x = AxisTransform(ranges_.x_axis.scale, x, plot.x, plot.right(), x_threshold);
    const double from = out_.has_heat_map ? plot.y : plot.bottom(), to = out_.has_heat_map ? plot.bottom() : plot.y;
    out_.y = AxisTransform(ranges_.y_axis.scale, y, from, to, y_threshold);
  }

  static Range around(Range r, double width) {
    const double centre = 0.5 * r.low + 0.5 * r.high;
    return {centre - width / 2, centre + width / 2};
  }

  void shrink_to(double width, double height) {
    Rect& plot = out_.plot;
    plot.x += (plot.width - width) / 2;
    plot.width = std::max(smallest_plot, width);
    plot.height = std::max(smallest_plot, height);
  }

  static Axis labelled(Axis axis, const std::vector<std::string>& labels) {
    for (std::size_t i = 0; i < labels.size(); ++i) axis.ticks.push_back({static_cast<double>(i), labels[i]});
    return axis;
  }

  Axis axis_with_cells(const Axis& axis, bool is_x) const {
    if (!out_.has_heat_map || !axis.ticks.empty()) return axis;
    for (const Series& series : figure_.series) {
      const auto* map = std::get_if<HeatMap>(&series);
      if (map && !(is_x ? map->col_labels : map->row_labels).empty())
        return labelled(axis, is_x ? map->col_labels : map->row_labels);
    }
    Axis whole = axis;
    whole.integer_ticks = true;
    return whole;
  }

  void shorten(std::string& label) const {
    const double most = widest_tick * out_.area.width;
    if (width(label, m_.text) > most) label = fitted_math(canvas_, label, most, m_.text, FontFace::regular);
  }

  // Reduces the number of labels until none touches its neighbour; of the figure's own ticks every second, third, ...
  // keeps its label.
  template <typename Extent1d>
  std::vector<Tick> roomy_ticks(const Axis& axis, const AxisTransform& transform, int most,
                                Extent1d&& half_length) const {
    for (;; --most) {
      std::vector<Tick> ticks = choose_ticks(axis, transform, most);
      for (Tick& tick : ticks) shorten(tick.label);
      if (!axis.ticks.empty()) thin_names(ticks, transform, half_length);
      if (most <= 2 || !axis.ticks.empty() || !touches(ticks, transform, half_length)) return ticks;
    }
  }

  template <typename Extent1d>
  static bool touches(const std::vector<Tick>& ticks, const AxisTransform& transform, Extent1d&& half_length) {
    const Tick* last = nullptr;
    for (const Tick& tick : ticks) {
      if (tick.label.empty()) continue;
      if (last) {
        const double distance = std::abs(transform.to_canvas(tick.at) - transform.to_canvas(last->at));
        if (distance < half_length(tick.label) + half_length(last->label)) return true;
      }
      last = &tick;
    }
    return false;
  }

  template <typename Extent1d>
  static void thin_names(std::vector<Tick>& ticks, const AxisTransform& transform, Extent1d&& half_length) {
    const std::vector<Tick> all = ticks;
    for (std::size_t stride = 1; stride <= all.size(); ++stride) {
      ticks = all;
      for (std::size_t i = 0; i < ticks.size(); ++i) {
        if (i % stride != 0) ticks[i].label.clear();
      }
      if (!touches(ticks, transform, half_length)) return;
    }
  }

  void choose_ticks_of_both() {
    const int max_x = std::clamp(static_cast<int>(out_.plot.width / (3.8 * m_.text)), 2, 12);
    const int max_y = std::clamp(static_cast<int>(out_.plot.height / (2.4 * m_.text)), 2, 9);
    choose_x_ticks(max_x);
    choose_y_ticks(max_y);
    if (figure_.equal_aspect && out_.x_ticks.size() > 1 && out_.y_ticks.size() > 1) share_step();
  }

  // With an equal aspect both axes get the same tick step: the coarser one.
  void share_step() {
    const bool is_linear = out_.x.scale() == Scale::linear && out_.y.scale() == Scale::linear;
    if (!is_linear || out_.has_heat_map) return;
    const double x_step = out_.x_ticks[1].at - out_.x_ticks[0].at, y_step = out_.y_ticks[1].at - out_.y_ticks[0].at;
    const auto count = [](Range range, double step) {
      return static_cast<int>(std::ceil((range.high - range.low) / step));
    };
    if (x_step < y_step * (1 - 1e-6)) choose_x_ticks(count(out_.x.range(), y_step));
    if (y_step < x_step * (1 - 1e-6)) choose_y_ticks(count(out_.y.range(), x_step));
  }

  void choose_x_ticks(int most) {
    const auto half = [this](const std::string& label) { return width(label, m_.text) / 2 + 0.4 * m_.text; };
    out_.x_ticks = roomy_ticks(axis_with_cells(ranges_.x_axis, true), out_.x, most, half);
    // Labels at the ends extend over the plot; the margins grow by as much.
    double over_right = 0;
    over_left_ = 0;
    for (const Tick& tick : out_.x_ticks) {
      const double reach = width(tick.label, m_.text) / 2, at = out_.x.to_canvas(tick.at);
      over_right = std::max(over_right, at + reach - out_.plot.right());
      over_left_ = std::max(over_left_, out_.plot.x - at + reach);
    }
    right_ = std::max(right_, m_.gap + over_right);
  }

  void choose_y_ticks(int most) {
    const auto half = [this](const std::string&) { return 0.6 * m_.text; };
    out_.y_ticks = roomy_ticks(axis_with_cells(ranges_.y_axis, false), out_.y, most, half);
    widest_y_label_ = 0;
    for (const Tick& tick : out_.y_ticks) widest_y_label_ = std::max(widest_y_label_, width(tick.label, m_.text));
  }

  void place_axis_titles() {
    const double y_title = axis_title(figure_.y).empty() ? 0 : m_.text * line_height_of_font;
    left_ = std::max({left_, m_.gap + y_title + widest_y_label_ + 0.75 * m_.text, m_.gap + over_left_});
    out_.y_title_x = out_.plot.x - widest_y_label_ - 1.25 * m_.text;
    out_.x_title_y = out_.plot.bottom() + 2.75 * m_.text;
  }

  double color_bar_width(ColorBarLayout& bar) {
    const auto& map = std::get<HeatMap>(figure_.series[bar.series]);
    const double swatch = bar.shows_flaws ? 2.2 * m_.text : 0;
    const double height =
        std::max(smallest_plot, (out_.plot.height > 0 ? out_.plot.height : out_.area.height / 2) - swatch);
    bar.bar = {0, 0, 0.9 * m_.text, height};
    bar.values = color_transform(map, view_, height, 0);
    const int most = std::clamp(static_cast<int>(height / (2.4 * m_.text)), 2, 7);
    bar.ticks = choose_ticks(map.value, bar.values, most);
    double labels = bar.shows_flaws ? width("not finite", m_.small) - bar.bar.width : 0;
    for (const Tick& tick : bar.ticks) labels = std::max(labels, width(tick.label, m_.text));
    const double title = axis_title(map.value).empty() ? 0 : m_.text * line_height_of_font;
    return m_.text + bar.bar.width + 0.4 * m_.text + labels + title;
  }

  void place_color_bars() {
    double x = out_.plot.right() + m_.text;
    for (ColorBarLayout& bar : out_.color_bars) {
      const double width = color_bar_width(bar);
      const auto& map = std::get<HeatMap>(figure_.series[bar.series]);
      bar.bar.x = x;
      bar.bar.y = out_.plot.y;
      bar.values = color_transform(map, view_, bar.bar.bottom(), bar.bar.y);
      bar.title_x = x + width - m_.text - 0.15 * m_.text;
      x += width;
    }
  }

  const Figure& figure_;
  const FigureView& view_;
  const LabelRoom& room_;
  const Canvas& canvas_;
  Measures m_;
  FigureRanges ranges_;
  FigureLayout out_;
  double left_ = 0, right_ = 0, top_ = 0, bars_width_ = 0, over_left_ = 0, widest_y_label_ = 0;
};

}  // namespace

Measures::Measures(const Theme& theme, const FigureView& view) {
  const double size = std::max(1.0, view.text_size) * theme.text_scale;
  text = size;
  small = 0.92 * size;
  title = 1.12 * size;
  unit = size / 12;
  line = unit * theme.line_scale / theme.text_scale;
  gap = 0.5 * size;
}

bool is_shown(const Series& series, const FigureView& view) {
  return std::ranges::none_of(
      view.hidden, [stem = stem_of(series_name(series))](const std::string& name) { return stem_of(name) == stem; });
}

bool is_complete(const HeatMap& map) {
  if (map.rows <= 0 || map.cols <= 0) return false;
  return map.cells.size() / static_cast<std::size_t>(map.cols) >= static_cast<std::size_t>(map.rows);
}

Range color_range(const HeatMap& map, const FigureView& view) {
  Extent extent;
  if (is_complete(map)) extent.add(map.cells.span());
  const Range fitted = fitted_range(extent, map.value.scale, RangeFit::nice);
  if (view.colours) return usable_range(*view.colours, map.value.scale, fitted);
  if (map.value.range) return usable_range(*map.value.range, map.value.scale, fitted);
  if (map.map != ColourMap::diverging || map.value.scale == Scale::log || extent.empty()) return fitted;
  Extent reach;  // of the side with the larger magnitude, rounded once and used for both
  reach.add(0);
  reach.add(std::max(std::abs(extent.low), std::abs(extent.high)));
  const double end = fitted_range(reach, map.value.scale, RangeFit::nice).high;
  return {-end, end};
}

AxisTransform color_transform(const HeatMap& map, const FigureView& view, double from, double to) {
  const Range range = color_range(map, view);
  Extent ends;
  ends.add(range.low);
  ends.add(range.high);
  return AxisTransform(map.value.scale, range, from, to, symlog_threshold(map.value, ends));
}

FigureLayout lay_out(const Figure& figure, const Theme& theme, const FigureView& view, const Rect& area,
                     const LabelRoom& room, const Canvas& canvas) {
  return Layouter(figure, theme, view, area, room, canvas).run();
}

}  // namespace afterglow
