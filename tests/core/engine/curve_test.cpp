// Growing curves: what was published stays as it was.
#include "core/engine/observation/curve.h"

#include <gtest/gtest.h>

namespace afterglow {
namespace {

TEST(GrowingCurve, ReadersKeepTheirValuesWhileItGrowsAndShrinks) {
  GrowingCurve curve;
  for (int i = 0; i < 300; ++i) curve.append(i);
  const Values before = curve.view();
  curve.truncate(10);
  for (int i = 0; i < 1000; ++i) curve.append(-1);
  ASSERT_EQ(before.size(), 300u);
  for (std::size_t i = 0; i < before.size(); ++i) ASSERT_EQ(before[i], static_cast<double>(i));
  EXPECT_EQ(curve.view()[9], 9);
  EXPECT_EQ(curve.view()[10], -1);
  EXPECT_EQ(curve.size(), 1010u);
}

TEST(GrowingCurve, ALongRunDoesNotMoveItsValues) {
  GrowingCurve curve;
  for (int i = 0; i < 257; ++i) curve.append(i);
  const double* place = curve.view().span().data();
  for (int i = 257; i < 1 << 20; ++i) curve.append(i);
  EXPECT_EQ(curve.view().span().data(), place);
  for (int i = 0; i < 10; ++i) curve.append(-1);
  EXPECT_EQ(curve.view()[300], 300);
  EXPECT_EQ(curve.view().back(), -1);
}

TEST(GrowingCurve, TruncatingBeyondTheEndChangesNothing) {
  GrowingCurve curve;
  curve.append(1);
  curve.truncate(5);
  EXPECT_EQ(curve.size(), 1u);
  curve.truncate(0);
  EXPECT_TRUE(curve.view().empty());
}

}  // namespace
}  // namespace afterglow
