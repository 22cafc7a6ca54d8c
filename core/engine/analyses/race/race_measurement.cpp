// Which layers race, and when results are published.
#include "core/engine/analyses/race/race_measurement.h"

#include <nlohmann/json.hpp>

namespace afterglow {

RaceMeasurement::RaceMeasurement(const nlohmann::json& model, Trainer& trainer) : copy_(model, trainer) {}

RaceMeasurement::~RaceMeasurement() = default;

void RaceMeasurement::begin(const RaceConfig& config, bool is_part) {
  copy_.take();
  RaceConfig same_kinds = config;
  if (race_) same_kinds.kinds = race_->config().kinds;
  const bool is_changed = !race_ || race_->config() != config;
  if (!race_ || race_->config() != same_kinds) {
    Trainer& trainer = copy_.trainer();
    race_ = std::make_unique<LayerRace>(config, copy_.model().width(), trainer.seed(), trainer.evaluation_tape(),
                                        trainer.dtype());
  }
  race_->forget_trained();
  if (is_changed) race_->enter_initial(config.kinds);
  shows_parts_ = shows_parts_ || is_changed || is_part;
  if (copy_.step() > 0) enter_trained();
  if (!view_ || is_part) show(false);
  working_ = true;
}

void RaceMeasurement::enter_trained() {
  for (const ModelPart& part : copy_.trainer().parts()) {
    if (part.branch < 0 || !mixes_tokens(part.kind)) continue;
    race_->enter_trained(*copy_.model().branches()[static_cast<std::size_t>(part.branch)].layer, part.label,
                         "trained, step " + std::to_string(copy_.step()));
  }
}

void RaceMeasurement::show(bool is_complete) {
  auto view = std::make_shared<RaceView>(race_->view());
  view->step = copy_.step();
  view->is_complete = is_complete;
  view_ = std::move(view);
  shown_ = race_->revision();
}

bool RaceMeasurement::advance() {
  if (!working_) return false;
  if (race_->advance()) {
    if (shows_parts_ && race_->revision() != shown_) show(false);
    return true;
  }
  show(true);
  shows_parts_ = working_ = false;
  return false;
}

}  // namespace afterglow
