// Studies that repeat a training, or look back at its kept steps, as plain values.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/engine/observation/table_view.h"

namespace afterglow {

/// The result of one repetition with a frozen part.
struct BisectedPart {
  std::string part;        ///< "1 ska": frozen; empty: none
  std::string kind;        ///< of the part, for its colour
  std::int64_t step = -1;  ///< at which the condition first held; -1: never
};

/// The step at which a condition begins to hold, with all parts learning and with one part frozen at a time.
struct BisectView {
  std::string name;                   ///< of the recipe
  std::string condition;              ///< "accuracy > 0.5"
  std::int64_t from = 0, until = 0;   ///< the range of steps that is searched
  std::int64_t at = 0;                ///< step of the repetition in progress
  std::vector<BisectedPart> parts{};  ///< finished ones, the one with nothing frozen first
  std::size_t planned = 0;
  bool is_complete() const { return parts.size() == planned; }
};

/// Some sequences of one batch, as their labels.
struct ShownBatch {
  std::int64_t step = -1;              ///< of the batch; -1: none is shown
  std::vector<std::string> sequences;  ///< the first few: "^ k17 v11 k1 v23 | k1"
};

/// Which batches shaped a training: its results without each of them.
struct BlameView {
  std::string name;                  ///< of the recipe
  std::int64_t first = 1, last = 0;  ///< steps whose batches are left out, one at a time
  std::int64_t until = 0;            ///< the step at which all runs are compared
  std::vector<RunMetric> metrics;    ///< what is measured there
  std::size_t shown = 0;             ///< index into `metrics`
  std::vector<double> whole;         ///< with every batch; empty: not measured yet
  std::vector<RunResult> without;    ///< `row` is the step of the batch that was left out; ascending
  std::vector<double> loss;          ///< of the training with every batch, steps first to until
  ShownBatch batch;
};

/// The first number of a pass that differs by more than the threshold in units in the last place.
struct FirstDifference {
  std::int64_t step = -1;    ///< of the weights of the pass; -1: none found
  std::string place;         ///< "layers.1.ska.readout"; for a result without a name, its part
  std::string operation;     ///< operation of the result: "ridge_readout"
  int token = 0, head = -1;  ///< -1: the result has no heads
  double ulps = 0;           ///< |a - b| in units in the last place (float32) of the result's largest number
};

/// Two trainings in lockstep that differ in one thing: the distance of their weights after each step, and where the
/// difference first appears.
struct MicroscopeView {
  std::string name;                           ///< of the recipe
  std::string change;                         ///< the difference of the second training: "one bit of head.weight[0]"
  std::int64_t from = 0, until = 0;           ///< steps at which the comparison begins and ends
  double ulps = 16;                           ///< differences above this are reported
  std::vector<std::string> parts;             ///< of the model
  std::vector<std::string> kinds;             ///< of the parts, for their colours
  std::vector<double> step;                   ///< from `from` on
  std::vector<std::vector<double>> distance;  ///< [parts][steps]: |w - w'| / |w| of the part's weights
  std::vector<double> whole;                  ///< [steps]: of all weights
  double slope = 0;                           ///< of ln(distance) over steps, 1 / step; NaN without two distances
  FirstDifference first;
  bool is_complete = false;

  bool is_zero() const {
    return std::ranges::all_of(whole, [](double d) { return d == 0; });
  }
};

/// One number of a model over the saved steps of its run.
struct OverTrainingView {
  std::string name;           ///< of the recipe
  std::string number;         ///< "head.1_ska.0.mode_number.1.modulus", as `check --names` lists it
  std::vector<double> step;   ///< ascending
  std::vector<double> value;  ///< NaN if the run had no such number at that step
  std::size_t missing = 0;    ///< saved states without a value yet
};

/// A sweep over two fields that fills while the window is open.
struct PhaseMapView {
  SweepView sweep;
  std::size_t shown = 0;          ///< the metric shown as colour, an index into the metrics
  std::int64_t steps = 0;         ///< of each run
  std::int64_t first_run_at = 0;  ///< step of the first run, until it has finished
  std::string x, y;               ///< the axes as requested: "learning_rate=log:1e-4:1e-1:16"
};

}  // namespace afterglow
