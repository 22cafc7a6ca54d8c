// Made-up findings of the laboratory of causes.
#pragma once
#include "core/engine/observation/observation.h"

namespace afterglow::samples {

/// Of the model and the tokens that the observation has.
void add_causes(Observation& observation);

}  // namespace afterglow::samples
