// When each analysis is made: while training goes on all together take a small share of the time, whatever each one
// costs; at rest each follows as soon as the user's hand allows.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/engine/observation/analyses.h"
#include "core/engine/session/analysis_table.h"

namespace afterglow {

class AnalysedRun;

/// Decides when a costly analysis is due, from what the last one cost. All times in seconds, of one clock.
class AnalysisThrottle {
 public:
  explicit AnalysisThrottle(double min_interval) : min_interval_(min_interval) {}
  /// The window begins to request the analysis, or training begins to run: the next one is due at once, and more follow
  /// at twice the age each, until `share` bounds them. So the first seconds show, and analyses in them are few. One
  /// that takes seconds, as of a large model, keeps to its share after the first.
  void begin(double now);
  /// Whether it may be made anew if in the long run it takes at most `share` (0 to 1) of the time. One that takes
  /// longer than `felt` seconds keeps to that from the second on, the first that need not set up anything.
  bool due(double share, double now, double max_cost = 1e9) const;
  /// Whether the last one took so long that several together would be felt.
  bool is_slow() const;
  /// Seconds since the last one began.
  double waited(double now) const { return now - last_; }
  /// Seconds since it was requested anew.
  double since_begin(double now) const { return now - begin_; }
  /// Notes that one has been made.
  void record(double from, double until);

 private:
  double min_interval_, cost_ = 0, begin_ = 0, last_ = -1e9;
  int made_ = 0;  // since it began
};

/// Makes the requested analyses of a run, each at its time. Needs no thread: the worker calls it between steps.
class AnalysisScheduler {
 public:
  using Clock = std::function<double()>;                      ///< seconds
  using Warn = std::function<void(const std::string& text)>;  ///< receives what could not be measured, and why

  using Interrupt = std::function<bool()>;  ///< whether a command waits

  AnalysisScheduler(
      Clock clock, Warn warn, Interrupt has_mail = [] { return false; });

  /// The part (0 to 1) of the time for all analyses that `analysis` may take when `requested`; what is not requested
  /// leaves its part to the others.
  static double part_of(Analysis analysis, AnalysisSet requested);

  AnalysisSet requested() const { return requested_; }
  /// From now on these; at first all. What is new among them is due at once. False where nothing changes.
  bool request(AnalysisSet analyses);
  /// Each of these is due at once: the run, what is asked of it, or whether it trains has changed.
  void begin(AnalysisSet analyses);
  /// A command has come; one that edits the probe is answered soon even while training.
  void note_command() { last_command_ = clock_(); }
  void note_edit() { probe_is_edited_ = true; }
  /// Tries analyses again that could not be measured.
  void retry() { failed_ = 0; }

  /// While training rests, a command is answered at once: what takes longer waits until no more commands come.
  bool is_steered(bool running) const;
  /// Whether a measurement is left to be made piece by piece while training rests.
  bool has_pieces(const AnalysedRun& run, bool running) const;
  /// One piece of such a measurement, of each in turn, so that a command is soon heard; true when there is something
  /// new to show. A measurement that fails is told once and given up; it never stops the training.
  bool advance_pieces(AnalysedRun& run);
  /// Beside the training, in each turn: measurements that the window waits for, whole slices of pieces. A window that
  /// draws slowly gets them as soon as one that draws fast. What is seen in part after the first seconds goes on to be
  /// filled while the training comes first again.
  void advance_urgent(AnalysedRun& run);
  /// Makes what is due for the next observation. True when at rest more is to follow. What this model or sequence
  /// cannot be asked (ExitCode::bad_input) is told once and given up, too.
  bool update_due(AnalysedRun& run, bool running);

 private:
  AnalysisThrottle& of(Analysis analysis);
  AnalysisSet wanted(const AnalysedRun& run) const;
  bool is_to_be_measured(const AnalysisInfo& row, const AnalysedRun& run) const;
  bool is_slow(const AnalysisInfo& row, const AnalysedRun& run) const;
  double share_of(Analysis analysis, const AnalysedRun& run, double now) const;
  /// Whether its share of the time allows another one.
  bool is_due(Analysis analysis, const AnalysedRun& run, double now) const;
  bool update_one(const AnalysisInfo& row, AnalysedRun& run, bool running);
  bool advance_piece(const AnalysisInfo& row, AnalysedRun& run);
  /// Told once; tried again only after `retry`.
  void give_up(const AnalysisInfo& row, const std::exception& error);
  void advance_for_a_slice(const AnalysisInfo& row, AnalysedRun& run);

  Clock clock_;
  Warn warn_;
  Interrupt has_mail_;
  AnalysisSet requested_ = all_analyses, failed_ = 0;
  std::vector<AnalysisThrottle> throttles_;  // row by row of the table
  AnalysisThrottle edits_{0};
  bool probe_is_edited_ = false;  // since the last whole answer
  std::size_t next_piece_ = 0;    // row of the table
  double last_command_ = -1e9;
};

}  // namespace afterglow
