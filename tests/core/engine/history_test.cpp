// The past: within its limit, dense near the present, never without its beginning.
#include <gtest/gtest.h>

#include "core/engine/training/saved/run_record.h"

namespace afterglow {
namespace {

TrainerState state(std::int64_t step, std::size_t bytes) {
  TrainerState result;
  result.step = step;
  result.weights.resize(bytes);
  return result;
}

TEST(History, StaysWithinItsLimitAndKeepsTheBeginning) {
  History history(100 * 1000);
  for (std::int64_t step = 0; step <= 5000; ++step) {
    if (history.wants(step, 1000)) history.keep(state(step, 1000));
  }
  EXPECT_LE(history.bytes(), 100u * 1000u);
  EXPECT_GT(history.frames(), 40u);
  ASSERT_NE(history.before(0), nullptr);
  EXPECT_EQ(history.before(0)->step, 0);
  const std::int64_t recent = 4990 - history.before(4990)->step;
  const std::int64_t gap_near = history.before(5000)->step - history.before(history.before(5000)->step - 1)->step;
  const std::int64_t old = history.before(1500)->step;
  const std::int64_t gap_old = old - history.before(old - 1)->step;
  EXPECT_LE(recent, 100);
  EXPECT_LE(gap_near, gap_old);
}

TEST(History, ForgetsTheFuture) {
  History history;
  for (const std::int64_t step : {0, 10, 20, 30}) history.keep(state(step, 8));
  history.forget_after(20);
  EXPECT_EQ(history.before(100)->step, 20);
  EXPECT_EQ(history.bytes(), 24u);
  EXPECT_EQ(history.before(9)->step, 0);
  EXPECT_EQ(History().before(5), nullptr);
}

TEST(History, TellsWhatIsKeptWithItsChecksums) {
  History history;
  EXPECT_TRUE(history.kept()->empty());
  for (const std::int64_t step : {0, 10, 20}) history.keep(state(step, 8));
  const auto kept = history.kept();
  ASSERT_EQ(kept->size(), 3u);
  EXPECT_EQ((*kept)[1].step, 10);
  EXPECT_EQ((*kept)[1].checksum, checksum_of(*history.before(10)));
  EXPECT_EQ(history.kept(), kept) << "nothing has changed";
  history.forget_after(10);
  TrainerState other = state(20, 8);
  other.weights[3] = std::byte{7};
  history.keep(other);
  EXPECT_EQ(history.kept()->back().checksum, checksum_of(other)) << "another future";
  EXPECT_NE(history.kept()->back().checksum, kept->back().checksum);
}

TEST(History, AStateLargerThanTheLimitIsStillReachable) {
  History history(10);
  history.keep(state(0, 1000));
  history.keep(state(10, 1000));
  history.keep(state(20, 1000));
  EXPECT_EQ(history.before(15)->step, 0);
  EXPECT_EQ(history.before(25)->step, 20);
}

TEST(History, GivesTheMemoryOfAStateThatGoesToTheNext) {
  History history(2000);
  for (const std::int64_t step : {0, 10}) history.keep(state(step, 1000));
  EXPECT_TRUE(history.take_spare().weights.empty());
  const std::byte* place = history.before(10)->weights.data();
  history.keep(state(20, 1000));
  EXPECT_EQ(history.bytes(), 2000u);
  const TrainerState spare = history.take_spare();
  EXPECT_EQ(spare.weights.data(), place);
  EXPECT_TRUE(history.take_spare().weights.empty()) << "once";
}

TEST(History, APinnedStateStaysWhateverTheLimit) {
  History history(10);
  for (const std::int64_t step : {0, 10, 20}) history.keep(state(step, 1000));
  history.pin(20);
  for (const std::int64_t step : {30, 40}) history.keep(state(step, 1000));
  EXPECT_EQ(history.frames(), 3u) << "the first, the pinned one, the newest";
  EXPECT_EQ(history.before(29)->step, 20);
  history.pin(40);
  history.keep(state(50, 1000));
  EXPECT_EQ(history.before(39)->step, 0);
  EXPECT_EQ(history.before(49)->step, 40);
}

TEST(History, KeepsAStateOfTheMiddleInItsPlaceAndOnce) {
  History history;
  for (const std::int64_t step : {0, 30, 10, 10}) history.keep(state(step, 8));
  EXPECT_EQ(history.frames(), 3u);
  EXPECT_EQ(history.bytes(), 24u);
  EXPECT_EQ(history.before(29)->step, 10);
  EXPECT_EQ(history.before(30)->step, 30);
}

}  // namespace
}  // namespace afterglow
