// Page sizes and the drawing of a page.
#include "core/figure/files/page.h"

#include <algorithm>

namespace afterglow {
namespace {

double bounded(double value, double low, double high) { return value >= low ? std::min(value, high) : low; }

/// Height for a legend above the plot, where the figure has more names than fit at the curves.
double legend_room_mm(const Figure& figure, double text_pt) {
  if (figure.labels != LabelPlacement::legend) return 0;
  constexpr double rows_inside = 4, row_height = 1.35, mm_of_a_point = 25.4 / 72;
  const auto names = std::ranges::count_if(figure.series, [](const Series& s) {
    const auto* line = std::get_if<Line>(&s);
    return line && !line->is_quiet && !line->name.empty();
  });
  return std::max(0.0, static_cast<double>(names) - rows_inside) * row_height * text_pt * mm_of_a_point;
}

}  // namespace

PageSize page_size(SizePreset preset, const Figure& figure) {
  const bool is_map =
      std::ranges::any_of(figure.series, [](const Series& s) { return std::holds_alternative<HeatMap>(s); });
  const bool is_square = figure.equal_aspect || is_map;
  if (preset == SizePreset::slide) return {254, 142.875, 16};
  if (preset == SizePreset::two_columns) return {178, (is_square ? 120.0 : 85.0) + legend_room_mm(figure, 8.5), 8.5};
  return {85, (is_square ? 80.0 : 60.0) + legend_room_mm(figure, 7.5), 7.5};
}

PageSize usable_page(PageSize page) {
  return {bounded(page.width_mm, 10, 2000), bounded(page.height_mm, 10, 2000), bounded(page.text_pt, 2, 72),
          page.shows_title};
}

FigureGeometry draw_page(const Figure& figure, const PageSize& page, const Theme& theme, const FigureView& view,
                         Canvas& canvas) {
  const Rect area{0, 0, page.width_pt(), page.height_pt()};
  FigureView on_page = view;
  on_page.show_title = page.shows_title;
  on_page.text_size = page.text_pt;
  canvas.fill_rect(area, 0, theme.panel);
  return render_figure(figure, theme, on_page, area, canvas);
}

double page_pixel(const PageSize& page) { return std::max(72.0 / 300, page.width_pt() / 2000); }

}  // namespace afterglow
