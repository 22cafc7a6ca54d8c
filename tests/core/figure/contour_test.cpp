// Lines of equal value: on a plane they are straight, on a hill they close, at a gap they end.
#include "core/figure/contour.h"

#include <gmock/gmock.h>

#include <cmath>

namespace afterglow {
namespace {

std::vector<double> cells_of(int rows, int cols, const std::function<double(double x, double y)>& f) {
  std::vector<double> cells;
  for (int row = 0; row < rows; ++row) {
    for (int col = 0; col < cols; ++col) cells.push_back(f(col, row));
  }
  return cells;
}

TEST(Contours, OfAPlaneAreStraightAndExact) {
  const auto plane = [](double x, double y) { return 2 * x + y; };
  const auto lines = contour_lines(cells_of(5, 7, plane), 5, 7, 6.5);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_GE(lines[0].x.size(), 5U);
  for (std::size_t i = 0; i < lines[0].x.size(); ++i) EXPECT_NEAR(plane(lines[0].x[i], lines[0].y[i]), 6.5, 1e-12);
}

TEST(Contours, AroundAHillCloseWhereTheyBegin) {
  const auto hill = [](double x, double y) { return -std::hypot(x - 4, y - 4); };
  const auto lines = contour_lines(cells_of(9, 9, hill), 9, 9, -2.5);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].x.front(), lines[0].x.back());
  EXPECT_EQ(lines[0].y.front(), lines[0].y.back());
  for (std::size_t i = 0; i < lines[0].x.size(); ++i)
    EXPECT_NEAR(std::hypot(lines[0].x[i] - 4, lines[0].y[i] - 4), 2.5, 0.15);
}

TEST(Contours, CrossEverySquareOfASaddleTwice) {
  const std::vector<double> high_middle{1, 0, 0, 1}, low_middle{0.4, 0, 0, 0.4};
  EXPECT_EQ(contour_lines(high_middle, 2, 2, 0.3).size(), 2U);
  const auto low = contour_lines(low_middle, 2, 2, 0.3), high = contour_lines(high_middle, 2, 2, 0.3);
  ASSERT_EQ(low.size(), 2U);
  // A high middle keeps the two high corners together: each line goes around a low one.
  EXPECT_EQ(high[0].x.front() + high[0].x.back() > 1, high[0].y.front() + high[0].y.back() < 1);
  EXPECT_EQ(low[0].x.front() + low[0].x.back() > 1, low[0].y.front() + low[0].y.back() > 1);
}

TEST(Contours, EndAtCellsWithoutANumber) {
  auto cells = cells_of(4, 4, [](double x, double) { return x; });
  cells[5] = std::nan("");
  for (const ContourLine& line : contour_lines(cells, 4, 4, 1.5)) {
    for (const double y : line.y) EXPECT_GE(y, 2);
  }
  EXPECT_TRUE(contour_lines(std::vector<double>(6, 1.0), 2, 3, 1.0).empty()) << "flat";
  EXPECT_TRUE(contour_lines({}, 0, 0, 1.0).empty());
  EXPECT_TRUE(contour_lines(std::vector<double>{1, 2, 3}, 1, 3, 1.5).empty()) << "no squares";
}

}  // namespace
}  // namespace afterglow
