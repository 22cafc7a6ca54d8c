// When a snapshot on the way is due.
#include "core/engine/training/saved/save_schedule.h"

#include <gtest/gtest.h>

namespace afterglow {
namespace {

TEST(SaveSchedule, IsDueBySteps) {
  SaveSchedule schedule({5, 0}, 3);
  EXPECT_FALSE(schedule.is_due(7));
  EXPECT_TRUE(schedule.is_due(8));
  EXPECT_FALSE(schedule.is_due(12)) << "counted from the last one";
  EXPECT_TRUE(schedule.is_due(13));
}

TEST(SaveSchedule, IsDueByTimeHoweverFewTheSteps) {
  EXPECT_TRUE(SaveSchedule({0, 1e-12}, 0).is_due(1));
  EXPECT_TRUE(SaveSchedule({1000000, 1e-12}, 0).is_due(1)) << "whichever comes first";
  EXPECT_FALSE(SaveSchedule({0, 1e9}, 0).is_due(1000000));
}

TEST(SaveSchedule, WithNeitherNothingIsDue) { EXPECT_FALSE(SaveSchedule({0, 0}, 0).is_due(1000000)); }

}  // namespace
}  // namespace afterglow
