// CSV of figures: the documented forms.
#include "core/figure/files/csv_writer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/core/figure/example_figures.h"

namespace afterglow {
namespace {

Figure with(std::vector<Series> series) {
  Figure figure;
  figure.x = {.label = "step"};
  figure.y = {.label = "loss", .unit = "nats"};
  figure.series = std::move(series);
  return figure;
}

TEST(Csv, IsWideForLinesThatShareTheirX) {
  const Figure f = with({Line{.name = "a", .curve = {{0, 1}, {0.1, NAN}, {}}},
                         Line{.name = "b", .curve = {{0, 1}, {INFINITY, -INFINITY}, {}}}});
  EXPECT_EQ(csv_text(f), "step,a [nats],b [nats]\r\n0,0.1,inf\r\n1,nan,-inf\r\n");
}

TEST(Csv, JoinsDifferentX) {
  const Figure f = with({Line{.name = "train", .curve = {{1, 2, 3}, {5, 6, 7}, {}}},
                         Line{.name = "test", .curve = {{2, 4}, {8, 9}, {}}}});
  EXPECT_EQ(csv_text(f), "step,train [nats],test [nats]\r\n1,5,\r\n2,6,8\r\n3,7,\r\n4,,9\r\n");
}

TEST(Csv, IsLongWhereXTurnsBack) {
  const Figure f = with({Line{.name = "orbit", .curve = {{1, 0, 1}, {5, 6, 7}, {}}}});
  EXPECT_EQ(csv_text(f), "series,step,loss [nats],size\r\norbit,1,5,\r\norbit,0,6,\r\norbit,1,7,\r\n");
}

TEST(Csv, TellsBarsBeforeAndAfter) {
  const Figure f = with({Bars{.name = "energy", .bars = {{0, 1, 2, 0}, {1, 3, NAN, 0}}}});
  EXPECT_EQ(csv_text(f), "step,energy [nats],energy (before) [nats]\r\n0,1,2\r\n1,3,nan\r\n");
}

TEST(Csv, HoldsDotsAndTrails) {
  Figure f = with({Scatter{.name = "modes", .points = {{.x = 1, .y = 2, .radius = 3}}, .trails = {{{4}, {5}}}}});
  EXPECT_EQ(csv_text(f), "series,step,loss [nats],size\r\nmodes,1,2,3\r\nmodes trail 1,4,5,\r\n");
  std::get<Scatter>(f.series[0]).points[0].mode.number = 7;
  EXPECT_EQ(csv_text(f), "series,step,loss [nats],size,mode\r\nmodes,1,2,3,7\r\nmodes trail 1,4,5,,\r\n");
}

TEST(Csv, IsAMatrixForAHeatMap) {
  Figure f = with({HeatMap{.rows = 2, .cols = 2, .cells = {1, 2, NAN, 4}, .row_labels = {"r,0", "r\"1"}}});
  EXPECT_EQ(csv_text(f), "loss [nats] \\ step,0,1\r\n\"r,0\",1,2\r\n\"r\"\"1\",nan,4\r\n");
}

TEST(Csv, HoldsWhatTheViewShows) {
  const Figure f = with(
      {Line{.name = "a", .curve = {{0, 1, 2}, {3, 4, 5}, {}}}, Line{.name = "b", .curve = {{0, 1, 2}, {6, 7, 8}, {}}}});
  EXPECT_EQ(csv_text_of_view(f, {.x = Range{1, 2}, .hidden = {"b"}}), "step,a [nats]\r\n1,4\r\n2,5\r\n");
}

TEST(Csv, TakesAwkwardFigures) {
  for (const Figure& figure : awkward_figures()) EXPECT_TRUE(csv_text(figure).ends_with("\r\n"));
}

}  // namespace
}  // namespace afterglow
