// The occupancy grid.
#include <algorithm>
#include <cmath>

#include "core/figure/painting/painter.h"

namespace afterglow {
namespace {

constexpr int max_cells = 1024;  // per side: fine enough for any screen, and a limit for huge areas

int cells_for(double length, double cell) {
  return static_cast<int>(std::clamp(std::ceil(length / cell), 1.0, static_cast<double>(max_cells)));
}

}  // namespace

Occupancy::Occupancy(const Rect& area, double cell)
    : area_(area),
      cell_(std::max({cell, area.width / max_cells, area.height / max_cells, 1e-6})),
      cols_(cells_for(area.width, cell_)),
      rows_(cells_for(area.height, cell_)),
      ink_(static_cast<std::size_t>(cols_) * rows_, 0) {}

void Occupancy::mark(Point p) {
  if (!area_.contains(p)) return;
  const int col = std::min(static_cast<int>((p.x - area_.x) / cell_), cols_ - 1);
  const int row = std::min(static_cast<int>((p.y - area_.y) / cell_), rows_ - 1);
  ink_[static_cast<std::size_t>(row) * cols_ + col] = 1;
}

void Occupancy::add_polyline(std::span<const Point> points) {
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Point a = points[i > 0 ? i - 1 : 0], b = points[i];
    const double length = std::max(std::abs(b.x - a.x), std::abs(b.y - a.y));
    if (!std::isfinite(length)) continue;
    const int steps = std::max(1, static_cast<int>(std::ceil(std::min(length / cell_, 2.0 * max_cells))));
    for (int step = 1; step <= steps; ++step) {
      const double t = static_cast<double>(step) / steps;
      mark({a.x + t * (b.x - a.x), a.y + t * (b.y - a.y)});
    }
  }
}

Occupancy::Span Occupancy::span_of(const Rect& rect) const {
  const auto index = [this](double offset, int count) {
    const double cell = std::floor(offset / cell_);
    return cell >= 0 ? static_cast<int>(std::min(cell, static_cast<double>(count))) : -1;  // NaN: outside
  };
  return {std::max(0, index(rect.x - area_.x, cols_)), std::min(cols_ - 1, index(rect.right() - area_.x, cols_)),
          std::max(0, index(rect.y - area_.y, rows_)), std::min(rows_ - 1, index(rect.bottom() - area_.y, rows_))};
}

void Occupancy::add_rect(const Rect& rect) {
  const Span s = span_of(rect);
  for (int row = s.first_row; row <= s.last_row; ++row) {
    for (int col = s.first_col; col <= s.last_col; ++col) ink_[static_cast<std::size_t>(row) * cols_ + col] = 1;
  }
}

int Occupancy::inked_cells(const Rect& rect) const {
  const Span s = span_of(rect);
  int count = 0;
  for (int row = s.first_row; row <= s.last_row; ++row) {
    for (int col = s.first_col; col <= s.last_col; ++col) count += ink_[static_cast<std::size_t>(row) * cols_ + col];
  }
  return count;
}

}  // namespace afterglow
