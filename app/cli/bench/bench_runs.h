// `afterglow bench runs` measures training steps per second of several runs of one preset at the same time, `bench
// look` how long each analysis takes on a model whose training is paused.
#pragma once
#include <memory>
#include <vector>

#include "core/engine/recipe/recipe.h"
#include "core/engine/session/analysed_run.h"
#include "core/engine/training/trainer.h"

namespace afterglow {

/// Runs that differ in their seed, each with its own back end, distributed over threads as `table --jobs` does.
class RunsBench : Immovable {
 public:
  /// `threads` <= 0: one thread for each run, at most one for each processor.
  RunsBench(const Recipe& recipe, int runs, const std::string& device, int threads);
  ~RunsBench();
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

/// All analyses that a page waits for, except those that train other runs.
inline constexpr AnalysisSet measured_analyses = all_analyses | Analysis::logit_lens | Analysis::transplant |
                                                 Analysis::forces | Analysis::patch | Analysis::ablation |
                                                 Analysis::readout | Analysis::retrieval | Analysis::costs;

/// The analyses of one new run, with batches and sequences as long as the window's.
class AnalysisBench {
 public:
  /// The caller keeps `backend` alive.
  AnalysisBench(const Recipe& recipe, Backend& backend);
  /// Runs one analysis anew; of a large model the part that the window computes by default.
  void run(Analysis analysis);
  /// Number of pieces of the last analysis, between which the session answers the window, and seconds of the longest.
  struct Pieces {
    int count = 0;
    double longest = 0;
  };
  const Pieces& pieces() const { return pieces_; }

 private:
  AnalysedRun run_;
  Pieces pieces_;
};

}  // namespace afterglow
