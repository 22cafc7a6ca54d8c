// The store of computed curves gives what a fresh one would, through growth, rewinds and other runs.
#include "views/figures/training/curve_store.h"

#include <gtest/gtest.h>

#include <cmath>

namespace afterglow {
namespace {

std::vector<double> ys(Curve curve) {
  const CurveView view(curve);
  std::vector<double> values;
  for (std::size_t i = 0; i < view.size(); ++i) values.push_back(view.y(i));
  return values;
}

TEST(CurveStore, GrowsWithItsCurve) {
  CurveStore store;
  GrowingCurve grown;
  for (int n = 0; n < 3000; n += 37) {
    while (static_cast<int>(grown.size()) < n) grown.append(std::sin(0.1 * static_cast<double>(grown.size())));
    CurveStore fresh;
    EXPECT_EQ(ys(store.raw("a", {grown.view(), 1, {}})), ys(fresh.raw("a", {grown.view(), 1, {}})));
    EXPECT_EQ(ys(store.smoothed("a", {grown.view(), 1, {}}, 0.9)), ys(fresh.smoothed("a", {grown.view(), 1, {}}, 0.9)));
  }
}

TEST(CurveStore, ForgetsWhatARewindTookBack) {
  CurveStore store;
  GrowingCurve grown;
  for (int i = 0; i < 500; ++i) grown.append(i);
  store.smoothed("a", {grown.view(), 1, {}}, 0.5);
  grown.truncate(200);
  for (int i = 0; i < 400; ++i) grown.append(-i);  // longer than what was seen, with another past
  CurveStore fresh;
  EXPECT_EQ(ys(store.smoothed("a", {grown.view(), 1, {}}, 0.5)), ys(fresh.smoothed("a", {grown.view(), 1, {}}, 0.5)));
}

TEST(CurveStore, CurvesHandedOutEarlierStayAsTheyWere) {
  CurveStore store;
  GrowingCurve grown;
  for (int i = 0; i < 10; ++i) grown.append(i);
  const Curve early = store.raw("a", {grown.view(), 1, {}});
  for (int i = 0; i < 5000; ++i) grown.append(7);
  store.raw("a", {grown.view(), 1, {}});
  EXPECT_EQ(CurveView(early).size(), 10u);
}

TEST(CurveStore, AnotherSmoothingReplacesTheLast) {
  CurveStore store;
  GrowingCurve grown;
  for (int i = 0; i < 3000; ++i) grown.append(std::cos(0.3 * i));
  for (const double smoothing : {0.9, 0.5, 0.99, 0.9}) {
    CurveStore fresh;
    EXPECT_EQ(ys(store.smoothed("a", {grown.view(), 1, {}}, smoothing)),
              ys(fresh.smoothed("a", {grown.view(), 1, {}}, smoothing)));
  }
}

TEST(CurveStore, AnAbscissaOfItsOwn) {
  CurveStore store;
  GrowingCurve steps, values;
  for (int i = 1; i <= 4; ++i) {
    steps.append(50 * i);
    values.append(0.1 * i);
  }
  values.append(0.9);  // its step is not published yet
  const Curve curve = store.raw("held out", {values.view(), 0, steps.view()});
  ASSERT_EQ(CurveView(curve).size(), 4u);
  EXPECT_EQ(CurveView(curve).x(3), 200);
}

TEST(CurveStore, AveragesOverAWindowAndNeverMovesThePast) {
  std::vector<double> values;
  for (int i = 0; i < 40; ++i) values.push_back(i % 7 == 3 ? std::nan("") : std::sin(i) + 1e8 * (i == 11));
  const auto mean_at = [&](std::size_t i) {
    double sum = 0, count = 0;
    for (std::size_t j = i + 1 - std::min<std::size_t>(5, i + 1); j <= i; ++j) {
      if (!std::isfinite(values[j])) continue;
      sum += values[j];
      count += 1;
    }
    return sum / count;
  };
  CurveStore store;
  std::vector<double> shown;
  for (std::size_t size = 1; size <= values.size(); ++size) {
    const Values seen(std::vector<double>(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(size)));
    const Curve curve = store.averaged("loss", {seen, 1, {}}, 5);
    ASSERT_EQ(curve.pyramid->size(), size);
    for (std::size_t i = 0; i < shown.size(); ++i) {
      if (std::isfinite(values[i])) {
        EXPECT_EQ(curve.pyramid->y(i), shown[i]) << "the past moved";
      }
    }
    shown.push_back(curve.pyramid->y(size - 1));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) {
      EXPECT_TRUE(std::isnan(shown[i]));
    } else {
      EXPECT_NEAR(shown[i], mean_at(i), i > 10 && i < 20 ? 1 : 1e-6) << i;
    }
  }
}

TEST(RecentlyUsed, ForgetsOnlyWhatNobodyAsksForAnyMore) {
  RecentlyUsed<int> kept;
  for (int i = 0; i < 5000; ++i) kept[std::to_string(i)] = i;
  for (int i = 0; i < 20000; ++i) kept["in use"] += 1;
  EXPECT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept["in use"], 20000);
  EXPECT_EQ(kept["7"], 0) << "made anew";
}

}  // namespace
}  // namespace afterglow
