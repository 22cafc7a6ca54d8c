// What a model writes: tokens drawn one after the other from its recurrent form.
#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "core/engine/training/trainer.h"

namespace afterglow {

struct GenerationOptions {
  std::int64_t count = 256;  ///< tokens to be written
  double temperature = 1;    ///< divides the logits; 0 always takes the most probable token
  int top = 0;               ///< only the so many most probable ones are drawn from; 0: all
  std::uint64_t seed = 0;    ///< the same model, beginning and options write the same tokens
  bool prefills = false;     ///< the beginning is read at once, in each layer's own form of a whole sequence
  bool keeps_scale = false;  ///< `ska`'s m stays what the beginning left (Echo 3.2.1)
};

/// Reads `beginning` (at least one token) and writes on; every new token is handed to `take`, which ends it by false.
/// Throws Error(bad_input) for a forecaster, an empty beginning, or a token that the model does not know.
void generate(Trainer& trainer, std::span<const int> beginning, const GenerationOptions& options,
              const std::function<bool(int token)>& take);

}  // namespace afterglow
