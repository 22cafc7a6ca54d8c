// `afterglow bench runs` measures training steps per second of several runs of one preset at the same time.
#pragma once
#include <memory>
#include <vector>

#include "core/engine/recipe/recipe.h"
#include "core/engine/training/trainer.h"

namespace afterglow {

/// Runs that differ in their seed, each with its own back end, distributed over threads as `table --jobs` does.
class RunsBench {
 public:
  /// `threads` <= 0: one thread for each run, at most one for each processor.
  RunsBench(const Recipe& recipe, int runs, const std::string& device, int threads);
  ~RunsBench();
  RunsBench(const RunsBench&) = delete;
  RunsBench& operator=(const RunsBench&) = delete;
  /// Trains every run for this number of steps; returns the seconds until the last one has ended.
  double seconds(int steps);

 private:
  struct Run {
    std::unique_ptr<Backend> backend;
    std::unique_ptr<Trainer> trainer;
  };
  std::vector<Run> runs_;
  int threads_;
};

}  // namespace afterglow
