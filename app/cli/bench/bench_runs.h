// `afterglow bench runs` measures training steps per second of several runs of one preset at the same time, `bench
// look` how long each analysis takes on a model whose training is paused.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/engine/session/analysed_run.h"
#include "core/engine/session/session.h"
#include "core/engine/training/trainer.h"
#include "core/recipe/recipe.h"

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

/// `afterglow bench publish` measures how much training speed it costs to publish observations.
struct PublishCase {
  const char* name;
  const char* preset;
  AnalysisSet analyses;                   ///< analyses that the reader wants
  std::vector<std::string> changes = {};  ///< fields of the recipe, as `--set` takes them
};

/// The analyses of the page that the window opens with: spectrum, curves, what the answers need, and the tokens.
inline constexpr AnalysisSet first_page_analyses =
    Analysis::spectra | Analysis::trace | Analysis::inspected | Analysis::ablation;

inline const std::vector<std::string> long_echo = {"batch=8", "task.length=1024"};

inline const PublishCase publish_cases[] = {
    {"publish tiny, first page", "tiny", first_page_analyses},
    {"publish tiny, every page", "tiny", all_analyses},
    {"publish ssm-ska, first page", "ssm-ska", first_page_analyses},
    {"publish ssm-ska, every page", "ssm-ska", all_analyses},
    {"publish echo-50m B8 T1024, every page", "echo-50m", all_analyses, long_echo},
};

/// Steps per second of one session that trains without end, in turns with a reader, which takes its observation at 60
/// Hz as the window does, and without one.
class PublishBench {
 public:
  struct Stretch {
    double seconds = 0;
    std::int64_t steps = 0;
    double step_ms() const { return 1e3 * seconds / static_cast<double>(steps); }
  };

  /// Returns when every analysis has been made once. Throws Error for what the session reports as a failure.
  PublishBench(Recipe recipe, AnalysisSet analyses, const SessionOptions& options);
  /// With a reader, after it has been connected for as long.
  Stretch watched(double seconds);
  /// Without a reader.
  Stretch alone(double seconds);

 private:
  Stretch stretch(double seconds);
  void observe_until(bool (*is_enough)(const Observation&));

  Session session_;
};

}  // namespace afterglow
