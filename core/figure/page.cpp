// Page sizes and the drawing of a page.
#include "core/figure/page.h"

#include <algorithm>
#include <cmath>

namespace afterglow {
namespace {

double bounded(double value, double low, double high) { return value >= low ? std::min(value, high) : low; }

}  // namespace

PageSize page_size(SizePreset preset, const Figure& figure) {
  const bool is_map =
      std::ranges::any_of(figure.series, [](const Series& s) { return std::holds_alternative<HeatMap>(s); });
  const bool is_square = figure.equal_aspect || is_map;
  switch (preset) {
    case SizePreset::two_columns:
      return {178, is_square ? 120.0 : 85.0, 8.5};
    case SizePreset::slide:
      return {254, 142.875, 16};
    case SizePreset::one_column:
      break;
  }
  return {85, is_square ? 80.0 : 60.0, 7.5};
}

PageSize usable_page(PageSize page) {
  return {bounded(page.width_mm, 10, 2000), bounded(page.height_mm, 10, 2000), bounded(page.text_pt, 2, 72)};
}

FigureGeometry draw_page(const Figure& figure, const PageSize& page, const Theme& theme, const FigureView& view,
                         Canvas& canvas) {
  const Rect area{0, 0, page.width_pt(), page.height_pt()};
  FigureView on_page = view;
  on_page.show_title = true;
  on_page.text_size = page.text_pt;
  canvas.fill_rect(area, 0, theme.panel);
  return render_figure(figure, theme, on_page, area, canvas);
}

double page_pixel(const PageSize& page) { return std::max(72.0 / 300, page.width_pt() / 2000); }

}  // namespace afterglow
