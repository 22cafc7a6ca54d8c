// What `afterglow bench runs` measures: training steps a second of several runs of one preset side by side.
#pragma once
#include <memory>
#include <vector>

#include "core/engine/recipe/recipe.h"
#include "core/engine/training/trainer.h"

namespace afterglow {

/// Runs that differ in their seed, each with a back end of its own, shared out over threads as `table --jobs` does it.
class RunsBench {
 public:
  /// `threads` <= 0: one for each run, at most one a processor.
  RunsBench(const Recipe& recipe, int runs, const std::string& device, int threads);
  ~RunsBench();
  RunsBench(const RunsBench&) = delete;
  RunsBench& operator=(const RunsBench&) = delete;
  /// Trains every run so many steps; seconds until the last has ended.
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
