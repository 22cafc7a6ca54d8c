// A batch that is cut into parts: the same bits whoever computes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/engine/training/shard_sum.h"
#include "core/engine/training/training_run.h"
#include "core/io/error.h"
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

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> letters_;
};

class ThreadRanks final : public Ranks {
 public:
  ThreadRanks(Mail& mail, int rank, int size) : mail_(&mail), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void exchange(int with, std::span<const std::byte> sent, std::span<std::byte> received) override {
    mail_->send(rank_, with, {sent.begin(), sent.end()});
    const std::vector<std::byte> bytes = mail_->receive(with, rank_);
    std::memcpy(received.data(), bytes.data(), received.size());
  }
  void end_all(int) override { std::abort(); }

 private:
  Mail* mail_;
  int rank_, size_;
};

Recipe cut_recipe() {
  nlohmann::json recipe = small_recipe_json();
  recipe["shards"] = 8;
  recipe["training"]["batch"] = 16;
  return parse_recipe(recipe, "cut");
}

/// Checksums of all ranks after some steps.
std::vector<std::string> train_in(int size, const Recipe& recipe) {
  Mail mail;
  std::vector<std::string> checksums(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadRanks ranks(mail, rank, size);
      const auto backend = make_cpu_backend(1);
      TrainingRun run(recipe, *backend);
      run.trainer().join(ranks);
      for (int i = 0; i < 4; ++i) run.train_step();
      const RunCurves curves = run.curves();
      checksums[static_cast<std::size_t>(rank)] = run.trainer().checksum() + std::to_string(curves.loss.back()) +
                                                  std::to_string(curves.gradient_norm.back()) +
                                                  std::to_string(curves.accuracy.back());
    });
  }
  for (std::thread& thread : threads) thread.join();
  return checksums;
}

TEST(Shards, OneTwoFourAndEightProcessesHaveTheSameBits) {
  const Recipe recipe = cut_recipe();
  const std::string alone = train_in(1, recipe).front();
  for (const int size : {2, 4, 8}) EXPECT_THAT(train_in(size, recipe), testing::Each(alone)) << size;
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

/// Numbers whose sum depends on the order.
TEST(Shards, TheSumIsTheSameTree) {
  const auto backend = make_cpu_backend(1);
  const std::array<float, 8> parts{1e8F, 1.0F, -1e8F, 3.5F, 7e-3F, 2e7F, -2e7F, 0.25F};
  const auto sum_of = [&](float a, float b) { return a + b; };
  const float expected = sum_of(sum_of(sum_of(parts[0], parts[1]), sum_of(parts[2], parts[3])),
                                sum_of(sum_of(parts[4], parts[5]), sum_of(parts[6], parts[7])));
  ShardSum sum(*backend, nullptr);
  const Tensor tensor(backend->allocate(sizeof(float)), {1}, DType::f32);
  sum.begin();
  for (const float part : parts) {
    backend->upload(tensor, &part);
    sum.add(tensor, {1.0});
  }
  EXPECT_EQ(sum.finish(tensor), std::vector<double>{8.0});
  float found = 0;
  backend->download(&found, tensor);
  EXPECT_EQ(found, expected);
  backend->release(tensor.data);
}

}  // namespace
}  // namespace afterglow
