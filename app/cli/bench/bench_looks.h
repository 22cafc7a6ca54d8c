// What `afterglow bench look` measures: how long each analysis takes of a model in training at rest.
#pragma once
#include "core/engine/session/analysed_run.h"

namespace afterglow {

/// All that a page waits for but those that are made of other trainings.
inline constexpr AnalysisSet look_analyses = all_analyses | Analysis::logit_lens | Analysis::transplant |
                                             Analysis::forces | Analysis::patch | Analysis::ablation |
                                             Analysis::readout | Analysis::retrieval | Analysis::costs;

/// The analyses of one new run, whose batches and sequences are as long as the window's.
class LooksBench {
 public:
  /// `backend` must outlive it.
  LooksBench(const Recipe& recipe, Backend& backend);
  /// Makes one analysis anew; of a large model the part that the window makes without being asked for more.
  void look(Analysis analysis);
  /// How many pieces the last look had, between which a window that waits is answered, and seconds of the longest.
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
