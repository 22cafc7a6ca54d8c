// A batch that is cut into parts: the same bits, whichever process computes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "core/backend/cpu/cpu_backend.h"
#include "core/engine/training/training_run.h"
#include "core/io/error.h"
#include "core/ranks/shard_sum.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

/// Mail between threads that stand for processes.
class Mail {
 public:
  void send(int from, int to, std::vector<std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    letters_[{from, to}].push_back(std::move(bytes));
    arrived_.notify_all();
  }
  std::vector<std::byte> receive(int from, int to) {
    std::unique_lock lock(mutex_);
    auto& letters = letters_[{from, to}];
    arrived_.wait(lock, [&] { return !letters.empty(); });
    std::vector<std::byte> bytes = std::move(letters.front());
    letters.pop_front();
    return bytes;
  }
  /// Memory that all see, a piece of each of them.
  std::vector<std::span<std::byte>> share(int size, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    shared_.resize(static_cast<std::size_t>(size));
    for (std::vector<std::byte>& memory : shared_) memory.resize(bytes);
    return {shared_.begin(), shared_.end()};
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> letters_;
  std::vector<std::vector<std::byte>> shared_;
};

/// Where the processes run: memory of one machine is seen by all of them, of two by half of them.
enum class Place { one_machine, two_machines, machine_each };

class ThreadRanks final : public Ranks {
 public:
  ThreadRanks(Mail& mail, int rank, int size, Place place = Place::machine_each)
      : mail_(&mail), rank_(rank), size_(size), place_(place) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void exchange(int with, std::span<const std::byte> sent, std::span<std::byte> received) override {
    mail_->send(rank_, with, {sent.begin(), sent.end()});
    const std::vector<std::byte> bytes = mail_->receive(with, rank_);
    std::memcpy(received.data(), bytes.data(), received.size());
  }
  std::vector<std::span<std::byte>> share(std::size_t bytes) override {
    std::vector<std::span<std::byte>> memory = mail_->share(size_, bytes);
    for (int rank = 0; rank < size_; ++rank) {
      if (machine(rank) != machine(rank_)) memory[static_cast<std::size_t>(rank)] = {};
    }
    return memory;
  }
  void end_all(int) override { std::abort(); }

 private:
  int machine(int rank) const {
    return place_ == Place::one_machine ? 0 : place_ == Place::two_machines ? rank * 2 / size_ : rank;
  }
  Mail* mail_;
  int rank_, size_;
  Place place_;
};

Recipe cut_recipe() {
  nlohmann::json recipe = small_recipe_json();
  recipe["shards"] = 8;
  recipe["training"]["batch"] = 16;
  return parse_recipe(recipe, "cut");
}

Recipe recomputed(Recipe recipe) {
  recipe.recompute = 1;
  return recipe;
}

/// Does the work in threads that stand for processes.
void in_each(int size, Place place, const std::function<void(Ranks& ranks)>& work) {
  Mail mail;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadRanks ranks(mail, rank, size, place);
      work(ranks);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::unique_ptr<Backend> on_the_cpu(const Ranks&) { return make_cpu_backend(1); }

/// A device whose memory others may open, and which says what was brought from there.
class OpenDevice final : public CpuBackend {
 public:
  /// `opens` false: it reaches no other's.
  explicit OpenDevice(bool opens) : CpuBackend(1), opens_(opens) {}
  ~OpenDevice() override { EXPECT_TRUE(opened_.empty()); }
  MemoryKey key_to(void* address) override {
    MemoryKey key{};
    std::memcpy(key.data(), &address, sizeof(address));
    return key;
  }
  void* open_memory(const MemoryKey& key) override {
    void* address = nullptr;
    std::memcpy(&address, key.data(), sizeof(address));
    if (!opens_) return nullptr;
    opened_.insert(address);
    return address;
  }
  void close_memory(void* address) override { EXPECT_EQ(opened_.erase(address), 1u); }
  void queue_uploads(std::span<const Transfer> arrays) override {
    const auto lies_there = [](const void* opened, const void* source) {
      return source >= opened && source < static_cast<const std::byte*>(opened) + reach;
    };
    for (const Transfer& array : arrays) {
      for (const void* opened : opened_) brought_ += lies_there(opened, array.from) ? 1 : 0;
    }
    CpuBackend::queue_uploads(arrays);
  }
  int brought() const { return brought_; }

 private:
  static constexpr std::ptrdiff_t reach = std::ptrdiff_t{16} << 20;  // the two places for one other
  bool opens_;
  std::set<void*> opened_;
  int brought_ = 0;
};

/// Checksums of all ranks after some steps.
std::vector<std::string> train_in(
    int size, const Recipe& recipe, Place place = Place::one_machine,
    const std::function<std::unique_ptr<Backend>(const Ranks&)>& make_backend = on_the_cpu,
    const std::function<void(Backend&)>& look = [](Backend&) {}) {
  std::vector<std::string> checksums(static_cast<std::size_t>(size));
  in_each(size, place, [&](Ranks& ranks) {
    const auto backend = make_backend(ranks);
    TrainingRun run(recipe, *backend);
    run.trainer().join(ranks);
    for (int i = 0; i < 4; ++i) run.train_step();
    const RunCurves curves = run.curves();
    checksums[static_cast<std::size_t>(ranks.rank())] = run.trainer().checksum() + std::to_string(curves.loss.back()) +
                                                        std::to_string(curves.gradient_norm.back()) +
                                                        std::to_string(curves.accuracy.back());
    look(*backend);
  });
  return checksums;
}

TEST(Shards, OneTwoFourAndEightProcessesHaveTheSameBits) {
  const Recipe recipe = cut_recipe();
  const std::string alone = train_in(1, recipe).front();
  for (const Place place : {Place::one_machine, Place::two_machines, Place::machine_each}) {
    for (const int size : {2, 4, 8}) EXPECT_THAT(train_in(size, recipe, place), testing::Each(alone)) << size;
  }
}

/// Copies from device to device where all reach each other, and nowhere if one does not.
TEST(Shards, PiecesGoStraightFromDeviceToDevice) {
  const std::string alone = train_in(1, cut_recipe()).front();
  for (const int blind : {-1, 1}) {
    const auto make_backend = [&](const Ranks& ranks) { return std::make_unique<OpenDevice>(ranks.rank() != blind); };
    const auto look = [&](Backend& backend) {
      const int brought = dynamic_cast<OpenDevice&>(backend).brought();
      EXPECT_EQ(brought > 0, blind < 0);
    };
    EXPECT_THAT(train_in(4, cut_recipe(), Place::machine_each, make_backend, look), testing::Each(alone));
  }
}

TEST(Shards, BlocksThatAreComputedTwiceChangeNothing) {
  const std::string alone = train_in(1, cut_recipe()).front();
  EXPECT_THAT(train_in(4, recomputed(cut_recipe())), testing::Each(alone));
}

/// An embedding that is the head, too, has its gradient last.
TEST(Shards, ATiedHeadIsCompleteAtTheEnd) {
  nlohmann::json json = to_json(cut_recipe());
  json["model"]["tie_embedding"] = true;
  const Recipe recipe = parse_recipe(json, "tied");
  EXPECT_THAT(train_in(4, recipe), testing::Each(train_in(1, recipe).front()));
}

TEST(Shards, BucketsAreTheWholeGradientFromItsEnd) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(cut_recipe(), *backend);
  ASSERT_TRUE(run.train_step());  // the first step reserves the gradients
  const ParameterStore& store = run.trainer().parameters();
  const std::vector<GradientBucket> buckets = gradient_buckets(store);
  EXPECT_GT(buckets.size(), 2u);
  EXPECT_LE(buckets.size(), 8u);
  std::int64_t end = store.gradients().elements();
  int end_parameter = static_cast<int>(store.all().size());
  for (const GradientBucket& bucket : buckets) {
    EXPECT_EQ(bucket.end, end_parameter);
    EXPECT_EQ(bucket.offset + bucket.gradient.elements(), end);
    EXPECT_EQ(bucket.gradient.data, store.all()[static_cast<std::size_t>(bucket.first)].gradient.data);
    end = bucket.offset;
    end_parameter = bucket.first;
  }
  EXPECT_EQ(end, 0);
  EXPECT_EQ(end_parameter, 0);
}

TEST(Shards, TheStepIsThatOfTheWholeBatch) {
  Recipe cut = cut_recipe(), whole = cut;
  whole.shards = 1;
  const auto backend = make_cpu_backend(1);
  TrainingRun one(cut, *backend), other(whole, *backend);
  one.train_step();
  other.train_step();
  const RunCurves a = one.curves(), b = other.curves();
  EXPECT_NEAR(a.loss.back(), b.loss.back(), 1e-5);
  EXPECT_NEAR(a.accuracy.back(), b.accuracy.back(), 1e-6);
  EXPECT_NEAR(a.gradient_norm.back(), b.gradient_norm.back(), 1e-4 * b.gradient_norm.back());
}

TEST(Shards, ARecipeSaysSoAndSaysNothingWhereItIsNotCut) {
  EXPECT_EQ(to_json(cut_recipe())["shards"], 8);
  EXPECT_FALSE(to_json(parse_recipe(small_recipe_json(), "small")).contains("shards"));
  nlohmann::json recipe = small_recipe_json();
  recipe["shards"] = 3;
  EXPECT_THROW(parse_recipe(recipe, "cut"), Error);
}

TEST(Shards, WhatCannotBeCutIsRefused) {
  const auto backend = make_cpu_backend(1);
  Recipe odd = cut_recipe();
  odd.training.batch = 12;
  EXPECT_THROW(TrainingRun(odd, *backend), Error);
  TrainingRun run(cut_recipe(), *backend);
  EXPECT_THROW(run.set("batch", 12), Error);
  EXPECT_EQ(run.trainer().config().batch, 16);
  TrainingRun whole(parse_recipe(small_recipe_json(), "small"), *backend);
  Mail mail;
  ThreadRanks ranks(mail, 0, 2);
  EXPECT_THROW(whole.trainer().join(ranks), Error);
}

/// Numbers whose sum depends on the order; as many of each as two pieces and a bit hold, and finished in two slices.
TEST(Shards, TheSumIsTheSameTree) {
  constexpr std::int64_t count = (std::int64_t{2} << 21) + 1000, cut = count / 3;
  const std::array<float, 8> parts{1e8F, 1.0F, -1e8F, 3.5F, 7e-3F, 2e7F, -2e7F, 0.25F};
  const auto sum_of = [&](float a, float b) { return a + b; };
  const float expected = sum_of(sum_of(sum_of(parts[0], parts[1]), sum_of(parts[2], parts[3])),
                                sum_of(sum_of(parts[4], parts[5]), sum_of(parts[6], parts[7])));
  const auto add_up = [&](Ranks* ranks) {
    const auto backend = make_cpu_backend(1);
    const Tensor tensor(backend->allocate(count * sizeof(float)), {count}, DType::f32);
    {
      ShardSum sum(*backend, ranks);
      sum.begin();
      for (int i = 0; i < sum.count(); ++i) {
        backend->fill(tensor, parts[static_cast<std::size_t>(sum.first() + i)]);
        if (i + 1 < sum.count()) sum.add(tensor);
      }
      sum.finish(Tensor(tensor.as<float>() + cut, {count - cut}, DType::f32), cut);
      sum.finish(Tensor(tensor.data, {cut}, DType::f32), 0);
      EXPECT_EQ(sum.sum({static_cast<std::size_t>(sum.count()), {1.0, 0.5}}), (std::vector<double>{8.0, 4.0}));
    }
    const std::span<const float> found(tensor.as<float>(), count);
    EXPECT_EQ(std::ranges::count(found, expected), count);
    backend->release(tensor.data);
  };
  add_up(nullptr);
  for (const Place place : {Place::one_machine, Place::two_machines, Place::machine_each}) {
    for (const int size : {1, 2, 4}) in_each(size, place, [&](Ranks& ranks) { add_up(&ranks); });
  }
}

}  // namespace
}  // namespace afterglow
