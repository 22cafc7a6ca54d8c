// The memory race beside a training: layers at initial weights run once, those of the model again whenever their
// weights are others.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "core/engine/influence/layer_race.h"
#include "core/engine/training/saved/model_copy.h"

namespace afterglow {

class RaceMeasurement {
 public:
  /// `model` is the recipe's; the trainer must outlive the measurement.
  RaceMeasurement(const nlohmann::json& model, Trainer& trainer);
  ~RaceMeasurement();

  /// Copies weights and settings and leaves the measuring to `advance`. Of a race of which a part is wanted, every
  /// layer is shown as it arrives.
  void begin(const RaceConfig& config, bool is_part = false);
  /// One piece of work; false when there is nothing left.
  bool advance();
  /// How much of the work is done, 0 to 1.
  double share_done() const { return working_ ? race_->share_done() : 1; }
  bool working() const { return working_; }
  /// Step of the weights that race or raced last; -1 before.
  std::int64_t step() const { return copy_.step(); }
  /// Of the first race, and of one with other layers, what is there of it, at first no layer; else the last one that is
  /// complete.
  std::shared_ptr<const RaceView> newest() const { return view_; }

 private:
  void enter_trained();
  void show(bool is_complete);

  ModelCopy copy_;
  std::unique_ptr<LayerRace> race_;
  bool shows_parts_ = true;  // its layers are others than those of the last race
  int shown_ = 0;            // revision
  bool working_ = false;
  std::shared_ptr<const RaceView> view_;
};

}  // namespace afterglow
