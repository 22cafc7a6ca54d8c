// Ranges, transforms and ticks over awkward data.
#include "core/figure/axis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace afterglow {
namespace {

using ::testing::ElementsAre;

Extent extent_of(std::vector<double> numbers) {
  Extent extent;
  extent.add(numbers);
  return extent;
}

std::vector<std::string> labels(const Axis& axis, Range range, int most) {
  std::vector<std::string> out;
  for (const Tick& tick : choose_ticks(axis, AxisTransform(axis.scale, range, 0, 100), most)) {
    if (!tick.label.empty()) out.push_back(tick.label);
  }
  return out;
}

TEST(FittedRange, SurvivesEverything) {
  const std::vector<std::vector<double>> awkward = {{},
                                                    {NAN, INFINITY, -INFINITY},
                                                    {5},
                                                    {0},
                                                    {-3, -3},
                                                    {1e308, -1e308},
                                                    {1e-320},
                                                    {-1e-320, 1e-320},
                                                    {1e300, 1},
                                                    {-1, 2},
                                                    {1, 1 + 1e-16},
                                                    {1e15, 1e15 + 1},
                                                    {0, 1e-9},
                                                    {NAN, 4},
                                                    {1e-300, 1e9},
                                                    {-7},
                                                    {1.7e308, 1.7e308}};
  for (const auto& numbers : awkward) {
    for (const Scale scale : {Scale::linear, Scale::log, Scale::symlog}) {
      for (const RangeFit fit : {RangeFit::tight, RangeFit::padded, RangeFit::nice}) {
        const Range r = fitted_range(extent_of(numbers), scale, fit);
        ASSERT_TRUE(std::isfinite(r.low) && std::isfinite(r.high) && r.low < r.high)
            << ::testing::PrintToString(numbers) << " scale " << static_cast<int>(scale) << " gives " << r.low << ", "
            << r.high;
        ASSERT_TRUE(scale != Scale::log || r.low > 0);
        const AxisTransform transform(scale, r, 10, 110, 1e-3);
        ASSERT_NEAR(transform.to_canvas(r.low), 10, 1e-6);
        ASSERT_NEAR(transform.to_canvas(r.high), 110, 1e-6);
        const auto ticks = choose_ticks({.scale = scale}, transform, 6);
        ASSERT_LE(ticks.size(), 220u);
        std::set<std::string> seen;
        double last = -INFINITY;
        for (const Tick& tick : ticks) {
          ASSERT_GE(tick.at, last);
          last = tick.at;
          ASSERT_TRUE(tick.label.empty() || seen.insert(tick.label).second)
              << tick.label << " twice in " << r.low << " ... " << r.high;
        }
      }
    }
  }
}

TEST(FittedRange, ContainsTheData) {
  const Extent data = extent_of({0.013, 0.4, 0.97});
  for (const Scale scale : {Scale::linear, Scale::log, Scale::symlog}) {
    for (const RangeFit fit : {RangeFit::tight, RangeFit::padded, RangeFit::nice}) {
      const Range r = fitted_range(data, scale, fit);
      EXPECT_LE(r.low, 0.013);
      EXPECT_GE(r.high, 0.97);
    }
  }
  EXPECT_EQ(fitted_range(data, Scale::linear, RangeFit::nice), (Range{0, 1}));
  EXPECT_EQ(fitted_range(extent_of({2e-8, 0.9}), Scale::log, RangeFit::nice), (Range{1e-8, 1}));
}

TEST(FittedRange, LogLeavesOutWhatHasNoPlace) {
  const Range r = fitted_range(extent_of({-5, 0, 1e-3, 10}), Scale::log, RangeFit::tight);
  EXPECT_DOUBLE_EQ(r.low, 1e-3);
  EXPECT_DOUBLE_EQ(r.high, 10);
  EXPECT_EQ(fitted_range(extent_of({-5, 0}), Scale::log, RangeFit::tight), (Range{1, 10}));
}

TEST(UsableRange, RepairsWhatWasAsked) {
  const Range fallback{1, 2};
  EXPECT_EQ(usable_range({9, 3}, Scale::linear, fallback), (Range{3, 9}));
  EXPECT_EQ(usable_range({NAN, 9}, Scale::linear, fallback), (Range{1, 9}));
  EXPECT_EQ(usable_range({-4, 100}, Scale::log, fallback), (Range{1, 100}));
  EXPECT_EQ(usable_range({-4, -2}, Scale::log, fallback), fallback);
  const Range point = usable_range({5, 5}, Scale::linear, fallback);
  EXPECT_LT(point.low, point.high);
}

TEST(AxisTransform, GoesBothWays) {
  for (const Scale scale : {Scale::linear, Scale::log, Scale::symlog}) {
    const AxisTransform t(scale, {0.02, 700}, 300, 20, 0.1);
    for (const double v : {0.02, 0.5, 3.0, 99.0, 700.0}) EXPECT_NEAR(t.to_data(t.to_canvas(v)), v, 1e-10 * v);
    EXPECT_GT(t.to_canvas(1), t.to_canvas(2));
  }
  EXPECT_EQ(AxisTransform(Scale::log, {1, 10}, 0, 1).to_canvas(0), -INFINITY);
}

TEST(AxisTransform, HoldsTheWholeRangeOfDoubles) {
  const AxisTransform t(Scale::linear, {-1.7e308, 1.7e308}, 0, 100);
  EXPECT_DOUBLE_EQ(t.to_canvas(0), 50);
  EXPECT_NEAR(t.to_data(75), 0.85e308, 1e295);
}

TEST(Ticks, AreNice) {
  EXPECT_THAT(labels({}, {0, 1}, 5), ElementsAre("0", "0.2", "0.4", "0.6", "0.8", "1"));
  EXPECT_THAT(labels({}, {0, 1}, 4), ElementsAre("0", "0.25", "0.5", "0.75", "1"));
  EXPECT_THAT(labels({}, {0, 800}, 4), ElementsAre("0", "200", "400", "600", "800"));
  EXPECT_THAT(labels({}, {-1, 1}, 2), ElementsAre("\u22121", "0", "1"));
  EXPECT_THAT(labels({}, {0, 20000}, 4), ElementsAre("0", "5k", "10k", "15k", "20k"));
  EXPECT_THAT(labels({}, {0, 5e6}, 2), ElementsAre("0", "2.5M", "5M"));
  EXPECT_THAT(labels({}, {0, 6e-4}, 3), ElementsAre("0", "2e\u22124", "4e\u22124", "6e\u22124"));
}

TEST(Ticks, StayWholeOnIntegerAxes) {
  for (const double high : {1.0, 2.0, 3.0, 7.0, 24.0, 1000.0}) {
    for (const Tick& tick : choose_ticks({.integer_ticks = true}, AxisTransform(Scale::linear, {0, high}, 0, 100), 6)) {
      EXPECT_EQ(tick.at, std::round(tick.at));
    }
  }
}

TEST(Ticks, ShowDecades) {
  const Axis axis{.scale = Scale::log};
  EXPECT_THAT(labels(axis, {1e-8, 1}, 5), ElementsAre("1e\u22128", "1e\u22126", "1e\u22124", "1e\u22122", "1"));
  EXPECT_THAT(labels(axis, {1, 1e4}, 6), ElementsAre("1", "10", "100", "1k", "10k"));
  EXPECT_THAT(labels(axis, {0.01, 1}, 6), ElementsAre("0.01", "0.1", "1"));
  EXPECT_THAT(labels(axis, {2, 9}, 6), ElementsAre("2", "5"));
  EXPECT_THAT(labels(axis, {2e5, 2e6}, 6), ElementsAre("0.2M", "0.5M", "1M", "2M")) << "all in one unit";
  EXPECT_THAT(labels(axis, {2e3, 2e4}, 6), ElementsAre("2k", "5k", "10k", "20k"));
  EXPECT_THAT(labels(axis, {0.005, 0.05}, 6), ElementsAre("0.005", "0.01", "0.02", "0.05"));
  EXPECT_THAT(labels({.scale = Scale::symlog}, {-100, 100}, 9), ::testing::Contains("0"));
}

TEST(Ticks, HaveAtLeastTwoNumbers) {
  // Flat plots ask for two labels, and get them wherever the range begins.
  for (const double low : {3e-4, 5e-3, 2e-2, 0.4, 30.0}) {
    for (const double decades : {1.2, 2.0, 2.5, 3.1, 5.7, 9.0}) {
      const Range range{low, low * std::pow(10, decades)};
      EXPECT_GE(labels({.scale = Scale::log}, range, 2).size(), 2u) << low << " to " << range.high;
    }
    for (const double width : {0.3, 1.0, 1.6, 2.4, 17.0})
      EXPECT_GE(labels({}, {low, low + width}, 2).size(), 2u) << low << " + " << width;
  }
}

TEST(Ticks, LogAxesHaveMinorTicks) {
  int minor = 0;
  for (const Tick& tick : choose_ticks({.scale = Scale::log}, AxisTransform(Scale::log, {1, 100}, 0, 100), 6))
    minor += tick.is_minor;
  EXPECT_EQ(minor, 16);  // 2 ... 9 and 20 ... 90
}

TEST(Ticks, AreThoseTheAxisNames) {
  const Axis axis{.ticks = {{0, "SSM"}, {1, "SKA"}, {9, "outside"}}};
  EXPECT_THAT(labels(axis, {-0.5, 1.5}, 1), ElementsAre("SSM", "SKA"));
}

TEST(Ticks, PlacesOfAnAxisThatCountsAreWrittenOut) {
  EXPECT_EQ(place_text({.integer_ticks = true}, 1'196'000, 4), "1,196,000");
  EXPECT_EQ(place_text({.integer_ticks = true}, -600, 4), "-600");
  EXPECT_EQ(place_text({.integer_ticks = true}, 0.5, 4), "0.5");
  EXPECT_EQ(place_text({}, 1'196'000, 4), "1.196e6");
  EXPECT_EQ(place_text({.integer_ticks = true, .ticks = {{1, "SKA"}}}, 1, 4), "SKA");
}

TEST(NumberText, IsForReading) {
  EXPECT_EQ(number_text(0.951, 3), "0.951");
  EXPECT_EQ(number_text(-0.4, 3), "\u22120.4");
  EXPECT_EQ(number_text(428), "428");
  EXPECT_EQ(number_text(0.001, 2), "0.001");
  EXPECT_EQ(number_text(1e-5, 2), "1.0e\u22125");
  EXPECT_EQ(number_text(9.9999e-5, 2), "1.0e\u22124");
  EXPECT_EQ(number_text(2.5e9, 3), "2.5e9");
  EXPECT_EQ(number_text(NAN), "NaN");
  EXPECT_EQ(number_text(-INFINITY), "\u2212∞");
  EXPECT_EQ(number_text(0.0), "0");
  EXPECT_FALSE(number_text(5e-324).empty());
}

}  // namespace
}  // namespace afterglow
