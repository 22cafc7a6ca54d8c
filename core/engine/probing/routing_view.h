// What the routing of one token mixer looks like, from its probes.
#pragma once
#include <cstdint>
#include <span>

#include "core/engine/observation/influence_view.h"
#include "core/layers/capture_reader.h"

namespace afterglow {

class Trainer;

/// Token weights, spread of a softmax, the feedback of Sessa, the decay of a state: what the probes of the part hold.
/// T is the size of `context`, the sequence that was probed.
RoutingView routing_of(Trainer& trainer, int part, const CaptureReader& read, std::span<const std::uint8_t> context);

}  // namespace afterglow
