// A run together with what is seen of it: spectra at fixed steps for the trails, the present spectrum, the trace.
// Window and command line share it, so that both see, and export, the same.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "core/engine/moment.h"
#include "core/engine/observer.h"

namespace afterglow {

class WatchedRun {
 public:
  WatchedRun(const Moment& moment, Backend& backend);

  TrainingRun& run() { return *run_; }
  const TrainingRun& run() const { return *run_; }

  /// As TrainingRun's; the trail is recorded at steps that do not depend on when anybody looks.
  bool train_step();
  void go_to(std::int64_t step);

  void choose_probe(std::uint64_t index);
  void choose_trace(int part);
  /// Forgets what was computed from the weights or settings before they changed.
  void forget_looks();

  bool spectra_are_current() const;
  bool trace_is_current() const;
  void update_spectra();
  /// The trace, the token weights of the same layer, and the path of training.
  void update_trace();

  /// Everything but what only a session knows (running, speed, earlier runs, events).
  Observation describe() const;

 private:
  void record_trail();
  std::unique_ptr<TrainingRun> run_;
  std::unique_ptr<Observer> observer_;
  int traced_part_ = -1;
  std::int64_t trail_interval_ = 10;  // steps; a function of the recipe alone
  std::deque<std::shared_ptr<const Spectra>> trail_;
  std::shared_ptr<const Spectra> spectra_;
  std::shared_ptr<const Trace> trace_;
  std::shared_ptr<const TokenWeights> token_weights_;
  std::shared_ptr<const TrajectoryView> trajectory_;
};

}  // namespace afterglow
