// A made-up influence measurement: tails of known laws, a feedback and a decaying state, a race.
#pragma once
#include <memory>

#include "core/engine/observation/observation.h"

namespace afterglow::samples {

/// Of the observation's model and step: its layers alternate between a state that decays and a feedback.
std::shared_ptr<const InfluenceView> influence_of(const Observation& observation);
std::shared_ptr<const RaceView> race_of(const Observation& observation);

}  // namespace afterglow::samples
