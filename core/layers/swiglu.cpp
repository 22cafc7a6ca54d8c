// The gated MLP.
#include "core/layers/swiglu.h"

#include <nlohmann/json.hpp>

#include "core/io/json_file.h"
#include "core/layers/layer_kind.h"
#include "core/ops/ops.h"

namespace afterglow {

Swiglu::Swiglu(const SwigluConfig& config, const ParameterScope& parameters)
    : gate_(parameters.add("w_gate.weight", {config.inner, config.width}, fan_in_uniform())),
      up_(parameters.add("w_up.weight", {config.inner, config.width}, fan_in_uniform())),
      down_(parameters.add("w_down.weight", {config.width, config.inner}, fan_in_uniform())) {}

Var Swiglu::forward(Tape& tape, const Var& x, const Tensor&) {
  return gated_mlp(tape, x, tape.parameter(gate_), tape.parameter(up_), tape.parameter(down_));
}

Var Swiglu::step(Tape& tape, const Var& x, LayerState& state) {
  ++state.position;
  return forward(tape, x, {});
}

LayerKind swiglu_kind() {
  return {.name = "swiglu",
          .description = "gated MLP: w_down(silu(w_gate x) * w_up x)",
          .source = "Shazeer 2020, GLU variants",
          .mixes_tokens = false,
          .make = [](const nlohmann::json& config, const ParameterScope& parameters) -> std::unique_ptr<Layer> {
            refuse_unknown_keys(config, {"d", "d_ff"}, "swiglu");
            SwigluConfig c;
            c.width = get_integer(config, "d", std::nullopt, 1, 65536, "swiglu");
            c.inner = get_integer(config, "d_ff", std::nullopt, 1, 1 << 20, "swiglu");
            return std::make_unique<Swiglu>(c, parameters);
          },
          .small_config = [](const SmallSizes& s) -> nlohmann::json {
            return {{"d", s.width}, {"d_ff", 3 * s.width}};
          },
          .benchmarks = {{R"({"d":128,"d_ff":384})", 16, 64}}};
}

}  // namespace afterglow
