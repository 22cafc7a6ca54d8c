// The accuracy grid: each task that the model understands, over numbers of bindings and lengths, measured on a copy of
// the weights.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "core/engine/analyses/accuracy/accuracy_view.h"
#include "core/engine/training/saved/model_copy.h"

namespace afterglow {

/// Settings of the command `accuracy_grid`.
struct AccuracyConfig {
  std::int64_t examples = 64;  ///< of each cell, 1 to 4096
  int longest = 4096;          ///< tokens, 16 to 65536
};
/// {"examples": 64, "longest": 1024}; absent fields keep their value in `before`. Throws Error(bad_input).
AccuracyConfig parse_accuracy(const nlohmann::json& value, const AccuracyConfig& before);
nlohmann::json to_json(const AccuracyConfig& config);

class AccuracyMeasurement {
 public:
  /// `model` is the recipe's; the trainer must outlive the measurement.
  AccuracyMeasurement(const nlohmann::json& model, Trainer& trainer);

  /// Copies weights and settings. `task` is the recipe's.
  void begin(const nlohmann::json& task, const AccuracyConfig& config);
  /// Evaluates some sequences of one cell: a few of every cell first, short ones before long ones. False if no work is
  /// left.
  bool advance();
  /// Whether every cell has a first result.
  bool has_overview() const { return !working() || turns_[next_].until == now_.examples; }
  /// Finished share of the work, 0 to 1.
  double share_done() const {
    return static_cast<double>(next_) / static_cast<double>(std::max<std::size_t>(1, turns_.size()));
  }
  bool working() const { return next_ < turns_.size(); }
  std::int64_t step() const { return copy_.step(); }
  std::shared_ptr<const AccuracyView> newest() const { return view_; }

 private:
  /// One visit of a cell, until it has `examples` examples.
  struct Turn {
    std::size_t grid, cell;
    std::int64_t until;
  };
  void plan(const nlohmann::json& task, const AccuracyConfig& config);
  void ask(const Turn& turn);
  void publish();

  ModelCopy copy_;
  Tape& tape_;
  std::vector<Turn> turns_;
  std::size_t next_ = 0;
  AccuracyView now_;
  std::shared_ptr<const AccuracyView> view_;
};

}  // namespace afterglow
