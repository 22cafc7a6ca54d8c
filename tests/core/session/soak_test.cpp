// Memory does not grow while a session trains and analyses as the window does, for eight seconds or
// AFTERGLOW_SOAK_SECONDS; and the verdict about it.
#include "tests/support/soak.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/backend/host_memory.h"
#include "core/engine/analyses/influence/influence_view.h"
#include "core/engine/analyses/inspected/inspected_view.h"
#include "tests/core/engine/small_recipe.h"
#include "tests/core/session/tour.h"

namespace afterglow {
namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;

/// Three moments of a run whose memory stays, but for the states that it keeps to go back to.
std::vector<SoakSample> steady() {
  return {{0, 1, 80 * mebibyte, 0, 90 * mebibyte, 500 * mebibyte},
          {60, 1000, 200 * mebibyte, 100 * mebibyte, 100 * mebibyte, 600 * mebibyte},
          {120, 2000, 300 * mebibyte, 200 * mebibyte, 100 * mebibyte, 600 * mebibyte}};
}

TEST(Soak, WhatIsKeptOnPurposeIsNoGrowth) {
  const SoakVerdict verdict = judge_soak(steady());
  EXPECT_TRUE(verdict.passed) << verdict.text;
  EXPECT_EQ(verdict.text,
            "memory stayed over 60 s and 1000 steps: host +0 B beyond what is kept, back end +0 B, whole GPU +0 B");
}

TEST(Soak, GrowthOfEachKindFails) {
  std::vector<SoakSample> samples = steady();
  samples.back().host_bytes += 17 * mebibyte;
  EXPECT_FALSE(judge_soak(samples).passed);
  samples = steady();
  samples.back().device_bytes += 1;
  EXPECT_FALSE(judge_soak(samples).passed);
  samples = steady();
  samples.back().gpu_bytes += 65 * mebibyte;
  EXPECT_FALSE(judge_soak(samples).passed);
}

TEST(Soak, TrainingThatStandsStillFails) {
  std::vector<SoakSample> samples = steady();
  samples.back().step = samples[1].step;
  EXPECT_FALSE(judge_soak(samples).passed);
  samples.pop_back();
  EXPECT_FALSE(judge_soak(samples).passed);
}

TEST(Soak, CurvesAndStatesAreKept) {
  Observation observation;
  observation.history_bytes = 1000;
  RunCurves& run = observation.runs.emplace_back();
  run.loss = std::vector<double>(10);
  run.layer_gradient_norms.push_back({"1 ska", std::vector<double>(5)});
  EXPECT_EQ(kept_bytes_of(observation), 1000 + 15 * 8);
}

/// The smallest of some readings: a temporary copy, for example of a state to keep, is not growth.
std::int64_t settled_bytes() {
  std::int64_t least = resident_bytes();
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    least = std::min(least, resident_bytes());
  }
  return least;
}

TEST(Soak, MemoryStaysWhileASessionTrainsAndAnalyses) {
  using Clock = std::chrono::steady_clock;
  const char* wanted = std::getenv("AFTERGLOW_SOAK_SECONDS");
  const double whole = wanted ? std::atof(wanted) : 8;
  nlohmann::json recipe = quickly_measured_recipe_json();
  recipe["training"]["steps"] = 100'000'000;
  Session session(recipe.dump(), {"cpu", 1, true, 1000.0});
  const Clock::time_point start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  std::vector<SoakSample> samples;
  Tour tour;
  for (double due = 0; samples.size() < 3 || samples.back().seconds < whole;) {
    const std::shared_ptr<const Observation> now = session.observe();
    require_training(*now);
    const bool is_toured = tour.advance(session, *now), is_base = is_toured && samples.size() == 1;
    if (is_base || (now->step > 0 && seconds() >= due && (samples.empty() || is_toured))) {
      samples.push_back({seconds(), now->step, settled_bytes(), kept_bytes_of(*now), now->device_bytes, 0});
      due = std::max(due, seconds()) + std::min(60.0, whole / 5);
    }
    ASSERT_LT(seconds(), 2 * whole + 120) << "the tour does not end";
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const SoakVerdict verdict = judge_soak(samples);
  EXPECT_TRUE(verdict.passed) << verdict.text;
}

TEST(Tour, SeesEverythingOnceAndThenNothingTakesMoreMemory) {
  nlohmann::json recipe = quickly_measured_recipe_json();
  recipe["training"]["steps"] = 100'000'000;
  Session session(recipe.dump(), {"cpu", 1, true, 1000.0});
  Tour tour;
  bool has_edited = false;
  std::shared_ptr<const Observation> now = session.observe();
  for (int i = 0; i < 20'000 && !tour.advance(session, *now); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    now = session.observe();
    has_edited = has_edited || (now->inspected && !now->inspected->setup.interventions.empty());
  }
  ASSERT_FALSE(now->running) << "the tour ended at rest, with everything of one moment";
  EXPECT_TRUE(has_edited);
  EXPECT_FALSE(now->runs.back().held_out_step.empty());
  EXPECT_TRUE(now->inspected->setup.interventions.empty()) << "and left it as it was";
  EXPECT_TRUE(now->influence->is_complete);
  ASSERT_TRUE(now->race);
  EXPECT_TRUE(now->race->is_complete);
  EXPECT_EQ(now->race->entries.size(), 3u) << "one at the start, two as trained";
  const std::int64_t held = now->device_bytes, step = now->step;
  EXPECT_GT(held, 0);
  std::int64_t measured = 0, max_held = 0;
  for (int i = 0; i < 20'000 && measured <= step; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    now = session.observe();
    measured = now->influence->step;
    max_held = std::max(max_held, now->device_bytes);
  }
  EXPECT_GT(now->step, step) << "it went on";
  EXPECT_GT(measured, step) << "and looked again";
  EXPECT_LE(max_held, held);
}

}  // namespace
}  // namespace afterglow
