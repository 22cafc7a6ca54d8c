// When each analysis is due while training goes on: all together take a small share of the time, whatever each one
// costs.
#pragma once

#include <array>

#include "core/engine/observation/analyses.h"

namespace afterglow {

/// Decides when a costly look is due, from what the last one cost. All times in seconds, of one clock.
class AnalysisThrottle {
 public:
  explicit AnalysisThrottle(double min_interval) : min_interval_(min_interval) {}
  /// Somebody begins to look, or the training begins to run: the next look is due at once, and more follow at twice the
  /// age each, until `share` bounds them. So the first seconds show, and their looks are few.
  void begin(double now);
  /// Whether it may be done anew if in the long run it takes at most `share` (0 to 1) of the time.
  bool due(double share, double now) const;
  void looked(double from, double until);

 private:
  double min_interval_, cost_ = 0, begin_ = 0, last_ = -1e9;
};

/// A pace for each of `analysis_infos`.
class AnalysisScheduler {
 public:
  AnalysisScheduler();

  /// The part (0 to 1) of the time for all analyses that `analysis` may take when `asked` for; what nobody asks for
  /// leaves its part to the others.
  static double part_of(Analysis analysis, AnalysisSet asked);

  AnalysisThrottle& of(Analysis analysis);
  /// For each of these.
  void begin(AnalysisSet analyses, double now);

 private:
  std::array<AnalysisThrottle, analysis_infos.size()> paces_;
};

}  // namespace afterglow
