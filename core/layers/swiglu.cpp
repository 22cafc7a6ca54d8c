// The gated and the plain MLP.
#include "core/layers/swiglu.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/io/json_file.h"
#include "core/layers/layer_kind.h"
#include "core/ops/ops.h"

namespace afterglow {

namespace {

constexpr const char* activations[] = {"silu", "gelu", "gelu_tanh", "relu", "relu2"};

/// x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)), which is GELU with a tangent in the place of the error function.
Var gelu_tanh(Tape& tape, const Var& x) {
  constexpr double cubic = 0.044715;
  const double slope = 2 * std::sqrt(0.6366197723675814);
  const Var cube = multiply(tape, multiply(tape, x, x), x);
  const Var argument = scale(tape, add(tape, x, scale(tape, cube, cubic)), slope);
  return multiply(tape, x, unary(tape, Unary::sigmoid, argument));
}

}  // namespace

Activation read_activation(const nlohmann::json& config, const std::string& where) {
  const std::vector<std::string> words(std::begin(activations), std::end(activations));
  const std::string word = get_choice(config, "activation", words, words.front(), where);
  return static_cast<Activation>(std::ranges::find(words, word) - words.begin());
}

Var activated(Tape& tape, const Var& x, Activation kind) {
  switch (kind) {
    case Activation::gelu:
      return unary(tape, Unary::gelu, x);
    case Activation::gelu_tanh:
      return gelu_tanh(tape, x);
    case Activation::relu:
      return unary(tape, Unary::relu, x);
    case Activation::relu2: {
      const Var positive = unary(tape, Unary::relu, x);
      return multiply(tape, positive, positive);
    }
    case Activation::silu:
      break;
  }
  return unary(tape, Unary::silu, x);
}

Mlp::Mlp(const MlpConfig& config, const ParameterScope& parameters) : config_(config) {
  const auto projection = [&](const std::string& name, std::int64_t rows, std::int64_t columns) {
    Projection own;
    own.weight = &parameters.add(name + ".weight", {rows, columns}, fan_in_uniform());
    if (config.biases) own.bias = &parameters.add(name + ".bias", {rows}, zeros());
    return own;
  };
  if (config.gated) gate_ = projection("w_gate", config.inner, config.width);
  up_ = projection("w_up", config.inner, config.width);
  down_ = projection("w_down", config.width, config.inner);
}

Var Mlp::Projection::of(Tape& tape, const Var& x) const {
  return linear(tape, x, tape.parameter(*weight), bias != nullptr ? tape.parameter(*bias) : Var{});
}

Var Mlp::forward(Tape& tape, const Var& x, const Tensor&) {
  if (is_fused())
    return gated_mlp(tape, x, tape.parameter(*gate_.weight), tape.parameter(*up_.weight),
                     tape.parameter(*down_.weight));
  const auto scaled = [&](const Var& of, double factor) { return factor != 1 ? scale(tape, of, factor) : of; };
  Var inner = up_.of(tape, x);
  if (config_.gated) {
    const Var gate = activated(tape, scaled(gate_.of(tape, x), config_.gate_scale), config_.activation);
    inner = multiply(tape, gate, inner);
  } else {
    inner = activated(tape, inner, config_.activation);
  }
  return scaled(down_.of(tape, inner), config_.output_scale);
}

Var Mlp::step(Tape& tape, const Var& x, LayerState& state) {
  ++state.position;
  return forward(tape, x, {});
}

namespace {

template <bool gated>
std::unique_ptr<Layer> make(const nlohmann::json& config, const ParameterScope& parameters) {
  const std::string where = gated ? "swiglu" : "mlp";
  refuse_unknown_keys(config, {"d", "d_ff", "activation", "bias", "gate_scale", "output_scale"}, where);
  MlpConfig c;
  c.width = get_integer(config, "d", std::nullopt, 1, 65536, where);
  c.inner = get_integer(config, "d_ff", std::nullopt, 1, 1 << 20, where);
  c.gated = gated;
  c.activation = read_activation(config, where);
  c.biases = get_bool(config, "bias", false, where);
  c.gate_scale = get_number(config, "gate_scale", 1.0, -1e6, 1e6, where);
  c.output_scale = get_number(config, "output_scale", 1.0, -1e6, 1e6, where);
  return std::make_unique<Mlp>(c, parameters);
}

nlohmann::json small(const SmallSizes& s) { return {{"d", s.width}, {"d_ff", 3 * s.width}}; }

}  // namespace

LayerKind swiglu_kind() {
  return {.name = "swiglu",
          .description = "gated MLP: w_down(silu(w_gate x) * w_up x)",
          .source = "Shazeer 2020, GLU variants",
          .mixes_tokens = false,
          .make = make<true>,
          .small_config = small,
          .benchmarks = {{R"({"d":128,"d_ff":384})", 16, 64}}};
}

LayerKind mlp_kind() {
  return {.name = "mlp",
          .description = "MLP without a gate: w_down(f(w_up x))",
          .source = "Vaswani et al. 2017, section 3.3",
          .mixes_tokens = false,
          .make = make<false>,
          .small_config = small};
}

}  // namespace afterglow
