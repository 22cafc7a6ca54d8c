// When each analysis is due while training goes on: all together take a small share of the time, whatever each one costs.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>

#include "core/engine/analyses.h"

namespace afterglow {

/// Decides when a costly look is due, from what the last one cost.
class Pace {
 public:
  /// `least_interval` in seconds.
  explicit Pace(double least_interval) : least_interval_(least_interval) {}
  /// Whether it may be done anew if it takes at most `share` (0 to 1) of the time.
  bool due(double share) const { return seconds_since(last_) >= std::max(least_interval_, cost_ / share); }
  /// Somebody begins to wait for it: what it took before no longer counts.
  void hurry() { cost_ = 0; }
  template <class Work>
  void timed(const Work& work) {
    last_ = Clock::now();
    work();
    cost_ = seconds_since(last_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  double least_interval_, cost_ = 0;
  Clock::time_point last_{};
};

/// A pace for each of `analysis_kinds`.
class AnalysisPaces {
 public:
  AnalysisPaces();

  /// The part (0 to 1) of the time for all analyses that `analysis` may take when `asked` for; what nobody asks for leaves
  /// its part to the others.
  static double part_of(Analysis analysis, Analyses asked);

  Pace& of(Analysis analysis);
  /// A page that opens shows the present moment, not the one at which somebody looked last.
  void hurry(Analyses newly_asked);

 private:
  std::array<Pace, analysis_kinds.size()> paces_;
};

}  // namespace afterglow
