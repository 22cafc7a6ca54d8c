// The thread pool: every piece exactly once, whatever the number of threads and pieces.
#include <gmock/gmock.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <new>
#include <numeric>
#include <thread>
#include <vector>

#include "core/backend/parallel.h"

namespace afterglow {
namespace {

class ThreadPoolTest : public ::testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, RunsEveryPieceOnce) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.threads(), GetParam());
  for (const std::int64_t count : {0, 1, 2, 63, 1001}) {
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count));
    pool.for_each(count, [&](std::int64_t i) { ++calls[i]; });
    for (const auto& called : calls) EXPECT_EQ(called, 1);
  }
}

TEST_P(ThreadPoolTest, CutsRangesAtTheSamePlaces) {
  ThreadPool pool(GetParam());
  for (const std::int64_t count : {0, 1, 99, 100, 101}) {
    std::vector<int> covered(static_cast<std::size_t>(count), 0);
    pool.for_ranges(count, 25, [&](std::int64_t begin, std::int64_t end) {
      EXPECT_EQ(begin % 25, 0);
      EXPECT_LE(end - begin, 25);
      for (std::int64_t i = begin; i < end; ++i) ++covered[i];
    });
    EXPECT_THAT(covered, ::testing::Each(1));
  }
}

// Many short loops in a row: workers that come late must not run a body that is gone.
TEST_P(ThreadPoolTest, SurvivesManyShortLoops) {
  ThreadPool pool(GetParam());
  std::int64_t total = 0;
  for (int loop = 0; loop < 20000; ++loop) {
    std::vector<std::int64_t> squares(3);
    pool.for_each(3, [&](std::int64_t i) { squares[i] = i * i; });
    total += std::accumulate(squares.begin(), squares.end(), std::int64_t{0});
  }
  EXPECT_EQ(total, 20000 * 5);
}

// What the body refers to is gone when the exception has left: no thread may still be in it.
TEST_P(ThreadPoolTest, AnExceptionLeavesWhenNobodyWorksAnyMore) {
  ThreadPool pool(GetParam());
  std::atomic<int> inside = 0;
  for (int loop = 0; loop < 500; ++loop) {
    const auto body = [&](std::int64_t i) {
      ++inside;
      if (i == loop % 8) {
        --inside;
        throw i;
      }
      for (int look = 0; look < 20; ++look) std::this_thread::yield();
      --inside;
    };
    std::int64_t thrown = -1;
    try {
      pool.for_each(64, body);
    } catch (const std::int64_t piece) {
      thrown = piece;
    }
    EXPECT_EQ(thrown, loop % 8);
    EXPECT_EQ(inside, 0);
  }
  std::atomic<int> calls = 0;
  EXPECT_THROW(pool.for_each(9, [](std::int64_t) { throw std::bad_alloc(); }), std::bad_alloc) << "every one throws";
  pool.for_each(9, [&](std::int64_t) { ++calls; });
  EXPECT_EQ(calls, 9) << "the pool goes on";
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, ::testing::Values(1, 2, 3, 8));

/// New threads ask for a stack of this size [bytes].
class ThreadStackSize {
 public:
  explicit ThreadStackSize(std::size_t bytes) {
    pthread_getattr_default_np(&before_);
    pthread_attr_t asked;
    pthread_getattr_default_np(&asked);
    pthread_attr_setstacksize(&asked, bytes);
    pthread_setattr_default_np(&asked);
    pthread_attr_destroy(&asked);
  }
  ~ThreadStackSize() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  ThreadStackSize(const ThreadStackSize&) = delete;
  ThreadStackSize& operator=(const ThreadStackSize&) = delete;

 private:
  pthread_attr_t before_;
};

TEST(ThreadPool, GoesOnWithTheThreadsThatCouldBeMade) {
  const ThreadStackSize more_than_there_is(std::size_t{1} << 60);
  ThreadPool pool(4);
  EXPECT_EQ(pool.threads(), 1);
  int calls = 0;
  pool.for_each(5, [&](std::int64_t) { ++calls; });
  EXPECT_EQ(calls, 5);
}

TEST(ThreadPool, CallsWhatIsToGoOnMeanwhileInTheCallingThreadAlone) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    int calls = 0;
    const auto here = std::this_thread::get_id();
    pool.set_yield([&] {
      EXPECT_EQ(std::this_thread::get_id(), here);
      ++calls;
    });
    pool.for_each(20, [](std::int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
    EXPECT_GT(calls, 0);
    EXPECT_LE(calls, 20);
    const int before = calls;
    pool.yield();
    EXPECT_EQ(calls, before + 1);
    pool.set_yield({});
    pool.for_each(3, [](std::int64_t) {});
    pool.yield();
    EXPECT_EQ(calls, before + 1);
  }
}

TEST(ThreadPool, TakesTheNumberOfCoresByDefault) { EXPECT_GE(ThreadPool(0).threads(), 1); }

}  // namespace
}  // namespace afterglow
