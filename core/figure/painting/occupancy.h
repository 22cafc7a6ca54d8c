// A coarse map of where the figure has ink, to find free places for labels.
#pragma once
#include <span>
#include <vector>

#include "core/figure/canvas.h"

namespace afterglow {

/// Square cells over a rectangle; marking and counting cost O(cells touched).
class Occupancy {
 public:
  Occupancy(const Rect& area, double cell);
  void add_polyline(std::span<const Point> points);
  void add_rect(const Rect& rect);
  /// Number of cells with ink that the rectangle touches; parts outside the area do not count.
  int inked_cells(const Rect& rect) const;
  bool is_free(const Rect& rect) const { return inked_cells(rect) == 0; }

 private:
  struct Span {
    int first_col, last_col, first_row, last_row;
  };
  Span span_of(const Rect& rect) const;
  void mark(Point p);

  Rect area_;
  double cell_;
  int cols_, rows_;
  std::vector<unsigned char> ink_;
};

}  // namespace afterglow
