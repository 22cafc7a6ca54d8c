// Trains up to a step; a test fails where training does.
#pragma once
#include <gtest/gtest.h>

#include "core/engine/training/training_run.h"

namespace afterglow {

inline void train_to(TrainingRun& run, std::int64_t step) {
  while (run.step() < step) ASSERT_TRUE(run.train_step()) << run.failure();
}

}  // namespace afterglow
