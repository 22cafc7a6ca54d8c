// Describes the routing of one token mixer from its captures.
#pragma once
#include <cstdint>
#include <span>

#include "core/engine/observation/influence_view.h"
#include "core/layers/capture_reader.h"

namespace afterglow {

class Trainer;

/// Token weights, spread of a softmax, Sessa's feedback, the decay of a state: whatever the part captures. T is the
/// size of `context`.
RoutingView routing_of(Trainer& trainer, int part, const CaptureReader& read, std::span<const std::uint8_t> context);

}  // namespace afterglow
