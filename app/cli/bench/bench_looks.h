// `afterglow bench look` measures how long each analysis takes on a model whose training is paused.
#pragma once
#include "core/engine/session/analysed_run.h"

namespace afterglow {

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
