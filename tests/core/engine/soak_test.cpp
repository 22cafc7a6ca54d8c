// The verdict about memory over a long training.
#include "core/engine/soak.h"

#include <gtest/gtest.h>

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
            "memory stayed over 60 s and 1000 steps: host +0.0 MiB beyond what is kept, back end +0.0 MiB, whole GPU "
            "+0.0 MiB");
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
  run.loss.size = 10;
  run.layer_gradient_norms.push_back({"1 ska", {nullptr, 5}});
  EXPECT_EQ(kept_bytes_of(observation), 1000 + 15 * 8);
}

TEST(Soak, MemoryIsWrittenInUnitsThatFit) {
  EXPECT_EQ(memory_text(3 * mebibyte / 2), "1.5 MiB");
  EXPECT_EQ(memory_text(2048 * mebibyte), "2.0 GiB");
  EXPECT_EQ(memory_text(-mebibyte, true), "-1.0 MiB");
}

}  // namespace
}  // namespace afterglow
