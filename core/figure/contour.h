// Lines of equal value over the cells of a heat map.
#pragma once
#include <span>
#include <vector>

namespace afterglow {

/// x counts columns, y rows; whole numbers are the centres of cells. A closed line ends where it begins.
struct ContourLine {
  std::vector<double> x, y;
};

/// Contour lines at `level` of rows x cols values, row-major, linear between neighbouring cells ("marching squares").
/// No line touches a cell that is not finite.
std::vector<ContourLine> contour_lines(std::span<const double> cells, int rows, int cols, double level);

}  // namespace afterglow
