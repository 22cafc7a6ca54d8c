// What is kept from drawing to drawing is what would be computed afresh, through growth, zoom and other data.
#include <gtest/gtest.h>

#include <cmath>

#include "core/figure/decimate.h"
#include "core/figure/render.h"
#include "tests/core/figure/recording_canvas.h"

namespace afterglow {
namespace {

double value_at(std::size_t i) {
  if (i % 7919 == 4000) return NAN;
  return std::sin(1e-3 * static_cast<double>(i)) + 0.2 * std::sin(static_cast<double>(i * i % 1013));
}

AxisTransform x_axis(double low, double high) { return AxisTransform(Scale::linear, {low, high}, 0, 800); }
AxisTransform height_axis(Scale scale = Scale::linear) {
  return AxisTransform(scale, scale == Scale::log ? Range{0.01, 2} : Range{-2, 2}, 300, 0);
}

void expect_same(const CanvasCurve& a, const CanvasCurve& b) {
  ASSERT_EQ(a.points.size(), b.points.size());
  EXPECT_EQ(a.starts, b.starts);
  ASSERT_EQ(a.flaws.size(), b.flaws.size());
  for (std::size_t i = 0; i < a.points.size(); ++i) {
    ASSERT_EQ(a.points[i].x, b.points[i].x) << i;
    ASSERT_EQ(a.points[i].y, b.points[i].y) << i;
  }
  for (std::size_t i = 0; i < a.flaws.size(); ++i) EXPECT_EQ(a.flaws[i].place.x, b.flaws[i].place.x);
}

/// A curve that grows, published as the window sees it.
struct Grown {
  CurvePyramid pyramid;
  Curve published() const { return {.pyramid = std::make_shared<const CurvePyramid>(pyramid)}; }
  void grow(std::size_t to) {
    for (std::size_t i = pyramid.size(); i < to; ++i) pyramid.append(static_cast<double>(i), value_at(i));
  }
};

TEST(ThinnedCurves, AGrowingCurveLooksAsIfDrawnAfresh) {
  ThinnedCurves kept;
  Grown grown;
  for (std::size_t size = 0; size < 60'000; size += 137 + size / 9) {
    grown.grow(size);
    const Curve curve = grown.published();
    const AxisTransform x = x_axis(0, size < 20'000 ? 20'000 : 100'000), y = height_axis();
    kept.begin_drawing();
    expect_same(*kept.get(0, curve, x, y, 1), thinned_curve(CurveView(curve), x, y, 1));
  }
}

TEST(ThinnedCurves, ZoomScaleAndOtherDataAreSeen) {
  ThinnedCurves kept;
  Grown grown, other;
  grown.grow(30'000);
  for (std::size_t i = 0; i < 30'000; ++i) other.pyramid.append(static_cast<double>(i), 0.5);
  for (const Curve& curve : {grown.published(), other.published()}) {
    for (const double high : {30'000.0, 500.0, 30'000.0}) {
      for (const Scale scale : {Scale::linear, Scale::log}) {
        kept.begin_drawing();
        const AxisTransform x = x_axis(100, high), y = height_axis(scale);
        expect_same(*kept.get(0, curve, x, y, 1), thinned_curve(CurveView(curve), x, y, 1));
        expect_same(*kept.get(0, curve, x, y, 0.5), thinned_curve(CurveView(curve), x, y, 0.5));
      }
    }
  }
}

TEST(ThinnedCurves, ARewoundCurveIsAnotherOne) {
  ThinnedCurves kept;
  Grown before, after;
  before.grow(40'000);
  after.grow(25'000);
  const AxisTransform x = x_axis(0, 50'000), y = height_axis();
  for (const Grown* grown : {&before, &after}) {
    kept.begin_drawing();
    const Curve curve = grown->published();
    expect_same(*kept.get(0, curve, x, y, 1), thinned_curve(CurveView(curve), x, y, 1));
  }
}

TEST(ThinnedCurves, AreTheSameObjectWhileNothingChanges) {
  ThinnedCurves kept;
  Grown grown;
  grown.grow(5000);
  const Curve curve = grown.published();
  kept.begin_drawing();
  const auto first = kept.get(0, curve, x_axis(0, 5000), height_axis(), 1);
  kept.begin_drawing();
  EXPECT_EQ(kept.get(0, curve, x_axis(0, 5000), height_axis(), 1), first);
}

TEST(ThinnedCurves, ForgetWhatIsNoLongerDrawn) {
  ThinnedCurves kept;
  Grown grown;
  for (std::size_t size = 1000; size < 50'000; size += 500) {
    grown.grow(size);
    kept.begin_drawing();
    kept.get(0, grown.published(), x_axis(0, static_cast<double>(size)), height_axis(), 1);
    EXPECT_LE(kept.size(), 2u);
  }
  kept.begin_drawing();
  kept.begin_drawing();
  EXPECT_EQ(kept.size(), 0u);
}

TEST(ThinnedCurves, AFigureIsDrawnTheSameWithAndWithoutThem) {
  Grown grown;
  ThinnedCurves kept;
  for (const std::size_t size : {3000, 9000, 9100}) {
    grown.grow(size);
    Figure figure;
    Line line;
    line.name = "loss";
    line.curve = line.raw = grown.published();
    figure.series.emplace_back(line);
    RecordingCanvas plain, again;
    render_figure(figure, dark_theme(), {}, {0, 0, 640, 400}, plain);
    FigureView view;
    view.thinned = &kept;
    render_figure(figure, dark_theme(), view, {0, 0, 640, 400}, again);
    ASSERT_EQ(plain.polylines.size(), again.polylines.size());
    for (std::size_t i = 0; i < plain.polylines.size(); ++i)
      EXPECT_EQ(plain.polylines[i].points.size(), again.polylines[i].points.size());
  }
}

TEST(CurvePyramid, FindsPlacesFromAnyGuess) {
  CurvePyramid pyramid;
  for (int i = 0; i < 5000; ++i) pyramid.append(i / 3, i);
  for (const double value : {-1.0, 0.0, 0.5, 700.0, 1666.0, 2000.0}) {
    for (const std::size_t guess : {0, 1, 100, 2100, 2102, 4999, 5000, 90'000})
      EXPECT_EQ(pyramid.first_not_below(value, guess), pyramid.first_not_below(value)) << value << " " << guess;
  }
}

TEST(CurvePyramid, KnowsWhatItSharesWithACopy) {
  Grown grown, other;
  grown.grow(5000);
  other.grow(5000);
  const CurvePyramid copy = grown.pyramid;
  grown.grow(9000);
  EXPECT_EQ(grown.pyramid.shared_points(copy), 4 * CurvePyramid::block_size);
  EXPECT_EQ(copy.shared_points(grown.pyramid), 4 * CurvePyramid::block_size);
  EXPECT_EQ(other.pyramid.shared_points(copy), 0u) << "equal numbers are not known to be the same";
}

}  // namespace
}  // namespace afterglow
