// Decides when each analysis runs: during training all together take a small share of the time; at rest each runs as
// soon as the user's commands allow.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/engine/observation/analyses.h"
#include "core/engine/session/analysis_table.h"

namespace afterglow {

class AnalysedRun;

/// The deadline of one analysis, from the cost of its last run. All times in seconds of one clock.
class AnalysisThrottle {
 public:
  explicit AnalysisThrottle(double min_interval) : min_interval_(min_interval) {}
  /// The window begins to request the analysis, or training starts: the next run is due at once, and further runs
  /// follow at twice the age each until `share` bounds them, so that the first seconds show something. A run of several
  /// seconds keeps to its share after the first.
  void begin(double now);
  /// When the next run may begin if in the long run the analysis takes at most `share` (0 to 1) of the time. One that
  /// costs more than `max_cost` seconds is bound by that from its second run on; the first includes set-up.
  double due_at(double share, double max_cost = 1e9) const;
  /// Whether the last run took longer.
  bool takes(double seconds) const { return cost_ > seconds; }
  /// Seconds since the last run began.
  double waited(double now) const { return now - last_; }
  /// Seconds since `begin`.
  double since_begin(double now) const { return now - begin_; }
  /// Records one run.
  void record(double from, double until);
  /// Records a piece of a result: the first, the last, or one between.
  void record_piece(double seconds, bool is_first, bool is_last);
  /// Seconds of work until a result is complete of which this share is done; -1: unknown.
  double seconds_left(double share_done) const;

 private:
  double min_interval_, cost_ = 0, begin_ = 0, last_ = -1e9;
  double spent_ = 0, whole_ = -1;  // on the result in progress, and on the last complete one; -1: none yet
  int made_ = 0;                   // runs since `begin`
};

/// Runs the requested analyses at their times, those with the earliest deadline first. It owns no thread: the worker
/// calls it between steps.
class AnalysisScheduler {
 public:
  using Clock = std::function<double()>;                      ///< seconds
  using Warn = std::function<void(const std::string& text)>;  ///< reports an analysis that failed, and why

  using Interrupt = std::function<bool()>;  ///< whether a command waits

  AnalysisScheduler(
      Clock clock, Warn warn, Interrupt has_mail = [] { return false; });

  /// The part (0 to 1) of all analysis time that `analysis` may take when `requested`; the others share what is not
  /// requested.
  static double part_of(Analysis analysis, AnalysisSet requested);

  AnalysisSet requested() const { return requested_; }
  /// Sets the requested analyses; at first all. New ones are due at once. False if nothing changes.
  bool request(AnalysisSet analyses);
  /// Makes these due at once, after a change of the run, the inspected sequence, or `running`.
  void begin(AnalysisSet analyses);
  /// Records a command; the response to an edited intervention is then computed soon, even during training.
  void note_command() { last_command_ = clock_(); }
  void note_edit() { inspected_is_edited_ = true; }
  /// Retries analyses that failed.
  void retry() { failed_ = 0; }

  /// At rest: whether commands follow each other so fast that slow analyses must wait.
  bool is_steered(bool running) const;
  /// At rest: whether a piecewise analysis has work left.
  bool has_pieces(const AnalysedRun& run, bool running) const;
  /// Advances one piecewise analysis by one piece, each in turn, so that commands never wait long; true if there is
  /// something new to show. An analysis that fails is reported once and skipped; training goes on.
  bool advance_pieces(AnalysedRun& run);
  /// During training: advances urgent analyses by whole slices of pieces. Does not depend on how fast the window draws.
  /// After the first seconds a partial result is completed at a lower share.
  void advance_urgent(AnalysedRun& run);
  /// Runs what is due for the next observation. For one that `answers` a command, what takes long waits. True if, at
  /// rest, more follows. An analysis that this model or sequence does not allow (ExitCode::bad_input) is reported once
  /// and skipped.
  bool update_due(AnalysedRun& run, bool running, bool answers = false);
  /// Adds when each requested result will be complete (AnalysisWork::due_in); the others become idle unless current.
  void estimate(const AnalysedRun& run, bool running, AnalysisResults& results) const;

 private:
  AnalysisThrottle& of(Analysis analysis) { return throttles_[index_of(analysis)]; }
  AnalysisSet wanted(const AnalysedRun& run) const;
  bool is_to_be_measured(const AnalysisInfo& row, const AnalysedRun& run) const;
  bool is_slow(const AnalysisInfo& row, const AnalysedRun& run) const;
  double share_of(Analysis analysis, const AnalysedRun& run, double now) const;
  /// When its share of the time allows another run.
  double due_at(Analysis analysis, const AnalysedRun& run, double now) const;
  bool is_due(Analysis analysis, const AnalysedRun& run) const;
  bool update_one(const AnalysisInfo& row, AnalysedRun& run, bool running);
  bool advance_piece(const AnalysisInfo& row, AnalysedRun& run);
  /// Reports the failure once; `retry` enables the analysis again.
  void give_up(const AnalysisInfo& row, const std::exception& error);
  void advance_for_a_slice(const AnalysisInfo& row, AnalysedRun& run);

  Clock clock_;
  Warn warn_;
  Interrupt has_mail_;
  AnalysisSet requested_ = all_analyses, failed_ = 0;
  std::vector<AnalysisThrottle> throttles_;  // in the table's order
  AnalysisThrottle edits_{0};
  bool inspected_is_edited_ = false;  // since the last complete response
  double last_command_ = -1e9;
};

}  // namespace afterglow
