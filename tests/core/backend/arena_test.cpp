// The arena: addresses repeat, several blocks become one, unwritten memory shows.
#include "core/backend/arena.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdint>

namespace afterglow {
namespace {

class ArenaTest : public ::testing::Test {
 protected:
  /// One step's tensors; their addresses.
  std::vector<void*> step(int tensors, std::int64_t elements) {
    arena_.rewind();
    return taken(tensors, elements);
  }
  std::vector<void*> taken(int tensors, std::int64_t elements) {
    std::vector<void*> addresses;
    for (int i = 0; i < tensors; ++i) addresses.push_back(arena_.allocate({elements}, DType::f32).data);
    return addresses;
  }
  std::unique_ptr<Backend> backend_ = make_cpu_backend(1);
  Arena arena_{*backend_};
};

TEST_F(ArenaTest, GivesAlignedMemoryThatDoesNotOverlap) {
  std::uintptr_t end = 0;
  for (void* address : step(10, 37)) {
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    EXPECT_EQ(begin % 256, 0u);
    EXPECT_GE(begin, end);
    end = begin + 37 * 4;
  }
  EXPECT_EQ(arena_.used(), 10 * 256u);
}

TEST_F(ArenaTest, RepeatsAddressesFromTheSecondStepOnAndThenHoldsItsSize) {
  step(40, 100'000);  // 16 MB: several blocks
  const std::vector<void*> second = step(40, 100'000);
  const std::size_t capacity = arena_.capacity();
  EXPECT_GE(capacity, 40 * 400'000u);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(step(40, 100'000), second);
    EXPECT_EQ(arena_.capacity(), capacity);
  }
}

TEST_F(ArenaTest, HoldsWhatAStepNeedsAndLittleMore) {
  constexpr std::size_t tensor = (400'000 + 255) / 256 * 256;
  step(40, 100'000);
  EXPECT_LT(arena_.capacity(), 40 * tensor * 3 / 2) << "while it grows";
  step(40, 100'000);
  EXPECT_EQ(arena_.capacity(), 40 * tensor);
  EXPECT_EQ(backend_->held_bytes(), arena_.capacity());
  step(44, 100'000);  // a little more: a block of a quarter
  EXPECT_LT(arena_.capacity(), 40 * tensor * 4 / 3);
  step(10, 100'000);
  EXPECT_EQ(arena_.capacity(), 44 * tensor) << "as much as the largest step so far";
}

TEST_F(ArenaTest, HandsOutAgainWhatIsRecycledBeforeItGrows) {
  step(1, 1'000'000);  // one block
  arena_.rewind();
  const Tensor first = arena_.allocate({1000}, DType::f32);
  const Arena::Mark from = arena_.mark();
  const Tensor spent = arena_.allocate({1000}, DType::f32), also = arena_.allocate({200}, DType::f32);
  const Arena::Mark to = arena_.mark();
  const std::size_t used = arena_.used();
  EXPECT_EQ(arena_.bytes_between(from, to), 4096u + 1024u);
  EXPECT_TRUE(arena_.lies_between(also.data, from, to));
  EXPECT_FALSE(arena_.lies_between(first.data, from, to));
  arena_.recycle(from, to);
  EXPECT_EQ(arena_.allocate({1100}, DType::f32).data, spent.data) << "both together have room for it";
  EXPECT_EQ(arena_.used(), used) << "handed out twice, counted once";
  EXPECT_NE(arena_.allocate({1000}, DType::f32).data, also.data) << "what is left is too small";
  arena_.rewind();
  EXPECT_EQ(arena_.allocate({1000}, DType::f32).data, first.data) << "a new step knows nothing of it";
  EXPECT_EQ(arena_.allocate({1000}, DType::f32).data, spent.data);
  EXPECT_NE(arena_.allocate({1000}, DType::f32).data, spent.data);
}

TEST_F(ArenaTest, GoesBackToAMomentAcrossBlocksAndCountsWhatWasInUseAtMost) {
  arena_.rewind();
  arena_.allocate({1000}, DType::f32);
  const Arena::Moment before = arena_.now();
  const std::vector<void*> first = taken(40, 100'000);  // several blocks
  const std::size_t used = arena_.used(), capacity = arena_.capacity();
  arena_.go_back(before);
  EXPECT_EQ(taken(40, 100'000), first);
  EXPECT_EQ(arena_.capacity(), capacity);
  EXPECT_EQ(arena_.used(), used);
  arena_.go_back(before);
  arena_.allocate({1000}, DType::f32);
  EXPECT_EQ(arena_.used(), used) << "the most so far";
  arena_.rewind();
  EXPECT_EQ(arena_.capacity(), used) << "one block that holds it all";
}

TEST_F(ArenaTest, WhatLayFreeAtAMomentLiesFreeAgain) {
  step(1, 1'000'000);  // one block
  arena_.rewind();
  const Arena::Mark from = arena_.mark();
  const Tensor spent = arena_.allocate({1000}, DType::f32);
  arena_.recycle(from, arena_.mark());
  const Arena::Moment before = arena_.now();
  EXPECT_EQ(arena_.allocate({1000}, DType::f32).data, spent.data);
  arena_.go_back(before);
  EXPECT_EQ(arena_.allocate({1000}, DType::f32).data, spent.data);
}

TEST_F(ArenaTest, RecyclesAcrossBlocks) {
  arena_.rewind();
  const Arena::Mark from = arena_.mark();
  step(40, 100'000);  // several blocks
  const Arena::Mark to = arena_.mark();
  arena_.recycle(from, to);
  const std::size_t capacity = arena_.capacity();
  for (int i = 0; i < 30; ++i) arena_.allocate({100'000}, DType::f32);
  EXPECT_EQ(arena_.capacity(), capacity);
}

TEST(CpuMemory, IsCountedWhileItIsHeld) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  void *first = backend->allocate(1000), *second = backend->allocate(24), *pinned = backend->allocate_host(5000);
  EXPECT_EQ(backend->held_bytes(), 1024u);
  backend->release(first);
  EXPECT_EQ(backend->held_bytes(), 24u);
  backend->release(second);
  backend->release_host(pinned);
  EXPECT_EQ(backend->held_bytes(), 0u);
}

TEST_F(ArenaTest, KeepsEarlierTensorsWhileItGrows) {
  const Tensor first = arena_.allocate({4}, DType::f64);
  backend_->fill(first, 3.5);
  for (int i = 0; i < 20; ++i) backend_->fill(arena_.allocate({200'000}, DType::f64), -1.0);
  EXPECT_EQ(first.as<double>()[3], 3.5);
}

TEST_F(ArenaTest, ServesEmptyTensors) {
  EXPECT_NE(arena_.allocate({0}, DType::f32).data, arena_.allocate({0}, DType::f32).data);
}

TEST_F(ArenaTest, PoisonsFloatingMemoryOnly) {
  arena_.set_poison(true);
  const Tensor x = arena_.allocate({37}, DType::f32), y = arena_.allocate({37}, DType::f64);
  for (int i = 0; i < 37; ++i) {
    EXPECT_TRUE(std::isnan(x.as<float>()[i]));
    EXPECT_TRUE(std::isnan(y.as<double>()[i]));
  }
}

}  // namespace
}  // namespace afterglow
