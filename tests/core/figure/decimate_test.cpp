// Thinning keeps every spike, marks every flaw and costs what the screen costs.
#include "core/figure/decimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace afterglow {
namespace {

struct Data {
  std::vector<double> x, y;
};

Data smooth(std::size_t n) {
  Data d;
  for (std::size_t i = 0; i < n; ++i) {
    d.x.push_back(static_cast<double>(i));
    d.y.push_back(std::sin(static_cast<double>(i) * 1e-4));
  }
  return d;
}

AxisTransform x_axis(double high) { return AxisTransform(Scale::linear, {0, high}, 0, 1000); }
AxisTransform y_axis() { return AxisTransform(Scale::linear, {-2, 2}, 500, 0); }

double highest_near(const CanvasCurve& curve, double x) {
  double best = INFINITY;  // canvas y grows downwards
  for (const Point p : curve.points) {
    if (std::abs(p.x - x) <= 1.5) best = std::min(best, p.y);
  }
  return best;
}

class Spikes : public ::testing::TestWithParam<std::size_t> {};

TEST_P(Spikes, AllSurvive) {
  const std::size_t n = GetParam();
  Data d = smooth(n);
  std::vector<std::size_t> places;
  for (std::size_t i = n / 7; i < n; i += n / 7 + 1) places.push_back(i);
  for (const std::size_t i : places) d.y[i] = 1.9;
  const CurvePyramid pyramid(d.x, d.y);
  const AxisTransform x = x_axis(static_cast<double>(n - 1)), y = y_axis();
  for (const CanvasCurve& curve :
       {thinned_curve(CurveView(d.x, d.y), x, y, 1),
        thinned_curve(CurveView({.pyramid = std::make_shared<CurvePyramid>(pyramid)}), x, y, 1)}) {
    EXPECT_LE(curve.points.size(), 4 * 1002u);
    for (const std::size_t i : places)
      EXPECT_NEAR(highest_near(curve, x.to_canvas(d.x[i])), y.to_canvas(1.9), 1e-9) << "spike at " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, Spikes, ::testing::Values(37, 101, 1024, 5000, 99991, 1000000));

TEST(ThinnedCurve, KeepsShortCurvesAsTheyAre) {
  const std::vector<double> x = {0, 10, 20, 30}, y = {0, 1, -1, 0.5};
  const CanvasCurve curve = thinned_curve(CurveView(x, y), x_axis(30), y_axis(), 1);
  ASSERT_EQ(curve.points.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_DOUBLE_EQ(curve.points[i].x, x_axis(30).to_canvas(x[i]));
    EXPECT_DOUBLE_EQ(curve.points[i].y, y_axis().to_canvas(y[i]));
  }
}

TEST(ThinnedCurve, PyramidAndArraysGiveTheSamePicture) {
  Data d = smooth(20000);
  for (std::size_t i = 0; i < d.y.size(); ++i) d.y[i] += 0.3 * std::sin(static_cast<double>(i * i % 1009));
  d.y[777] = NAN;
  d.y[15000] = -INFINITY;
  const auto pyramid = std::make_shared<CurvePyramid>(d.x, d.y);
  for (const Range range : {Range{0, 20000}, Range{700, 900}, Range{14990, 15010.5}, Range{-500, 40}}) {
    const AxisTransform x(Scale::linear, range, 0, 640);
    const CanvasCurve a = thinned_curve(CurveView(d.x, d.y), x, y_axis(), 1),
                      b = thinned_curve(CurveView({.pyramid = pyramid}), x, y_axis(), 1);
    ASSERT_EQ(a.points.size(), b.points.size());
    EXPECT_EQ(a.starts, b.starts);
    EXPECT_EQ(a.flaws.size(), b.flaws.size());
    for (std::size_t i = 0; i < a.points.size(); ++i) {
      ASSERT_EQ(a.points[i].x, b.points[i].x);
      ASSERT_EQ(a.points[i].y, b.points[i].y);
    }
  }
}

TEST(ThinnedCurve, MarksFlawsAndLeavesGaps) {
  const std::vector<double> x = {0, 10, 20, 30, 40, 50, 60, 70}, y = {0, 1, NAN, 1, INFINITY, 0, -INFINITY, 1};
  const CanvasCurve curve = thinned_curve(CurveView(x, y), x_axis(70), y_axis(), 1);
  ASSERT_EQ(curve.flaws.size(), 3u);
  EXPECT_EQ(curve.flaws[0].flaw, Flaw::not_a_number);
  EXPECT_DOUBLE_EQ(curve.flaws[0].place.y, y_axis().to_canvas(1));
  EXPECT_EQ(curve.flaws[1].flaw, Flaw::above);
  EXPECT_DOUBLE_EQ(curve.flaws[1].place.y, 0);
  EXPECT_EQ(curve.flaws[2].flaw, Flaw::below);
  EXPECT_DOUBLE_EQ(curve.flaws[2].place.y, 500);
  ASSERT_EQ(curve.pieces(), 4u);
  EXPECT_EQ(curve.piece(0).size(), 2u);
  EXPECT_EQ(curve.piece(1).size(), 1u);  // a value between two gaps is kept as a dot
}

TEST(ThinnedCurve, MarksAFlawAmongAMillion) {
  Data d = smooth(1000000);
  d.y[512345] = NAN;
  const CanvasCurve curve =
      thinned_curve(CurveView({.pyramid = std::make_shared<CurvePyramid>(d.x, d.y)}), x_axis(999999), y_axis(), 1);
  ASSERT_EQ(curve.flaws.size(), 1u);
  EXPECT_NEAR(curve.flaws[0].place.x, 512.3, 1.0);
}

TEST(ThinnedCurve, MarksWhatHasNoPlaceOnLogAxes) {
  const std::vector<double> x = {0, 10, 20, 30}, y = {1, 0, -3, 1};
  const CanvasCurve curve = thinned_curve(CurveView(x, y), x_axis(30), AxisTransform(Scale::log, {0.1, 10}, 500, 0), 1);
  ASSERT_EQ(curve.flaws.size(), 2u);
  EXPECT_EQ(curve.flaws[0].flaw, Flaw::off_log);
  EXPECT_EQ(curve.pieces(), 2u);
}

TEST(ThinnedCurve, StaysNearThePlot) {
  const std::vector<double> x = {0, 1, 2, 3, 4}, y = {0, 1e300, -1e300, 1e5, 0};
  const CanvasCurve curve = thinned_curve(CurveView(x, y), x_axis(4), y_axis(), 1);
  ASSERT_FALSE(curve.points.empty());
  for (const Point p : curve.points) {
    EXPECT_GE(p.y, -41);
    EXPECT_LE(p.y, 541);
  }
}

TEST(ThinnedCurve, DrawsCurvesThatTurnBack) {
  std::vector<double> x, y;
  for (int i = 0; i <= 20000; ++i) {
    const double t = i * 1e-3;
    x.push_back(500 + 400 * std::cos(t));
    y.push_back(1.5 * std::sin(t));
  }
  const CanvasCurve curve = thinned_curve(CurveView(x, y), x_axis(1000), y_axis(), 1);
  EXPECT_LT(curve.points.size(), 12000u);
  double left = 1e9, right = -1e9, top = 1e9;
  for (const Point p : curve.points) {
    left = std::min(left, p.x);
    right = std::max(right, p.x);
    top = std::min(top, p.y);
  }
  EXPECT_NEAR(left, 100, 1.01);
  EXPECT_NEAR(right, 900, 1.01);
  EXPECT_NEAR(top, y_axis().to_canvas(1.5), 0.01);
}

TEST(ThinnedCurve, TakesEmptyAndBrokenCurves) {
  EXPECT_TRUE(thinned_curve(CurveView(Curve{}), x_axis(1), y_axis(), 1).points.empty());
  const std::vector<double> x = {NAN, NAN}, y = {1, 2}, shorter = {1};
  EXPECT_EQ(thinned_curve(CurveView(x, y), x_axis(1), y_axis(), 1).pieces(), 0u);
  EXPECT_EQ(CurveView(shorter, y).size(), 1u);
}

TEST(CurvePyramid, SummariesMatchALook) {
  Data d = smooth(5000);
  for (std::size_t i = 0; i < d.y.size(); ++i)
    d.y[i] = std::sin(static_cast<double>(i) * 0.37) * std::cos(static_cast<double>(i) * 0.0101);
  d.y[1500] = NAN;
  d.y[4999] = INFINITY;
  const CurvePyramid pyramid(d.x, d.y);
  for (const auto& [first, last] : {std::pair<std::size_t, std::size_t>{0, 5000},
                                    {0, 1},
                                    {31, 33},
                                    {1023, 1025},
                                    {1024, 2048},
                                    {17, 4001},
                                    {4096, 5000},
                                    {1500, 1501}}) {
    const Summary fast = pyramid.summary(first, last), slow = summary_of(d.x, d.y, first, last);
    EXPECT_EQ(fast.lowest, slow.lowest) << first << " " << last;
    EXPECT_EQ(fast.highest, slow.highest);
    EXPECT_EQ(fast.lowest_positive, slow.lowest_positive);
    EXPECT_EQ(fast.first_flaw, slow.first_flaw);
    EXPECT_EQ(fast.first_non_positive, slow.first_non_positive);
  }
}

TEST(CurvePyramid, CopiesAreSnapshots) {
  CurvePyramid growing;
  for (int i = 0; i < 3000; ++i) growing.append(i, i);
  const CurvePyramid snapshot = growing;
  for (int i = 3000; i < 9000; ++i) growing.append(i, -i);
  EXPECT_EQ(snapshot.size(), 3000u);
  EXPECT_EQ(snapshot.y_extent().low, 0);
  EXPECT_EQ(growing.y_extent().low, -8999);
  EXPECT_EQ(snapshot.summary(0, 9000).highest, 2999u);
  EXPECT_EQ(growing.first_not_below(4500.5), 4501u);
}

TEST(CurvePyramid, KnowsWhenXTurnsBack) {
  CurvePyramid p;
  p.append(1, 0);
  p.append(1, 0);
  EXPECT_TRUE(p.is_sorted());
  p.append(0.5, 0);
  EXPECT_FALSE(p.is_sorted());
  CurvePyramid q;
  q.append(NAN, 0);
  EXPECT_FALSE(q.is_sorted());
}

}  // namespace
}  // namespace afterglow
