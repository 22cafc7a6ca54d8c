// Which weights were rounded all at once.
#include "core/backend/rounded_weights.h"

#include <gtest/gtest.h>

namespace afterglow {
namespace {

class RoundedWeightsTest : public ::testing::Test {
 protected:
  Tensor weight(std::int64_t first, std::int64_t rows, std::int64_t columns) {
    return {numbers_ + first, {rows, columns}, DType::f32};
  }
  bool covers(std::initializer_list<Tensor> weights) const { return all_.cover({weights.begin(), weights.size()}); }

  alignas(16) float numbers_[1024] = {};
  RoundedWeights all_{{numbers_, {1024}, DType::f32}, {numbers_, {1}, DType::f32}};
};

TEST_F(RoundedWeightsTest, CoverWhatLiesSideBySide) {
  EXPECT_TRUE(covers({weight(0, 8, 64)}));
  EXPECT_TRUE(covers({weight(64, 8, 8), weight(128, 8, 8)}));
  EXPECT_FALSE(covers({weight(64, 8, 8), weight(136, 8, 8)})) << "there is a gap between them";
  EXPECT_FALSE(covers({weight(128, 8, 8), weight(64, 8, 8)})) << "in another order";
  EXPECT_FALSE(covers({weight(4, 8, 8)})) << "begins in the middle of a vector";
}

TEST_F(RoundedWeightsTest, NeedRoomForWholeEightsOfRows) {
  EXPECT_TRUE(covers({weight(896, 15, 8)})) << "eight numbers after it";
  EXPECT_FALSE(covers({weight(904, 13, 8)})) << "24 are lacking and 16 there";
  EXPECT_FALSE(covers({weight(1016, 8, 8)})) << "ends beyond";
}

TEST_F(RoundedWeightsTest, CoverNothingWithoutRoundedNumbers) {
  all_.rounded = {};
  EXPECT_FALSE(covers({weight(0, 8, 64)}));
  EXPECT_FALSE(covers({}));
}

TEST_F(RoundedWeightsTest, CoverNoOtherMemory) {
  alignas(16) float others[64] = {};
  EXPECT_FALSE(covers({Tensor{others, {8, 8}, DType::f32}}));
}

}  // namespace
}  // namespace afterglow
