// The model that tests of forecasting runs train: small, and with a memory of training.
#pragma once
#include <nlohmann/json.hpp>

namespace afterglow {

inline nlohmann::json small_forecaster() {
  return {{"kind", "spectral_memory"}, {"d_model", 8},       {"n_heads", 2},      {"d_ff", 16}, {"e_layers", 1},
          {"n_components", 4},         {"memory_tokens", 2}, {"memory_depth", 12}};
}

}  // namespace afterglow
