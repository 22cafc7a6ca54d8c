// The memory race during training: layers with initial weights run once, those of the model again whenever their
// weights have changed.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "core/engine/analyses/race/layer_race.h"
#include "core/engine/training/saved/model_copy.h"

namespace afterglow {

class RaceMeasurement {
 public:
  /// `model` is the recipe's; the trainer must outlive the measurement.
  RaceMeasurement(const nlohmann::json& model, Trainer& trainer);
  ~RaceMeasurement();

  /// Copies weights and settings; `advance` does the work. With `is_part` every layer is shown once it has finished.
  void begin(const RaceConfig& config, bool is_part = false);
  /// One piece of work; false if none is left.
  bool advance();
  /// Finished share of the work, 0 to 1.
  double share_done() const { return working_ ? race_->share_done() : 1; }
  bool working() const { return working_; }
  /// Step of the weights in the present or last race; -1 before the first.
  std::int64_t step() const { return copy_.step(); }
  /// For the first race and for one with other layers its finished part; else the last complete race.
  std::shared_ptr<const RaceView> newest() const { return view_; }

 private:
  void enter_trained();
  void show(bool is_complete);

  ModelCopy copy_;
  std::unique_ptr<LayerRace> race_;
  bool shows_parts_ = true;  // its layers differ from those of the last race
  int shown_ = 0;            // revision
  bool working_ = false;
  std::shared_ptr<const RaceView> view_;
};

}  // namespace afterglow
