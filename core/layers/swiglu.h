// MLPs, position by position: the gated one of most models, y = w_down(f(w_gate x) * w_up x), and the plain one,
// y = w_down(f(w_up x)).
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "core/layers/layer.h"

namespace afterglow {

enum class Activation { silu, gelu, gelu_tanh, relu, relu2 };
/// "activation" of a configuration: silu by default, or gelu, gelu_tanh, relu, relu2 (its square).
Activation read_activation(const nlohmann::json& config, const std::string& where);
Var activated(Tape& tape, const Var& x, Activation kind);

struct MlpConfig {
  std::int64_t width = 0;  ///< d
  std::int64_t inner = 0;  ///< d_ff
  bool gated = true;
  Activation activation = Activation::silu;
  bool biases = false;                      ///< bias: on all projections
  double gate_scale = 1, output_scale = 1;  ///< factors of w_gate x in front of the function, and of the answer
};

class Mlp final : public Layer {
 public:
  Mlp(const MlpConfig& config, const ParameterScope& parameters);
  std::string_view kind() const override { return config_.gated ? "swiglu" : "mlp"; }
  bool projects_once() const override { return is_fused() && config_.inner % 8 == 0; }
  Var forward(Tape& tape, const Var& x, const Tensor& mask) override;
  Var step(Tape& tape, const Var& x, LayerState& state) override;

 private:
  bool is_fused() const {
    return config_.gated && config_.activation == Activation::silu && !config_.biases && config_.gate_scale == 1 &&
           config_.output_scale == 1;
  }
  struct Projection {
    const Parameter *weight = nullptr, *bias = nullptr;
    Var of(Tape& tape, const Var& x) const;
  };
  MlpConfig config_;
  Projection gate_, up_, down_;
};

}  // namespace afterglow
