// The gated MLP of the papers' models: y = w_down(silu(w_gate x) * w_up x), position by position.
#pragma once
#include "core/layers/layer.h"

namespace afterglow {

struct SwigluConfig {
  std::int64_t width = 0;  ///< d
  std::int64_t inner = 0;  ///< d_ff
};

class Swiglu final : public Layer {
 public:
  Swiglu(const SwigluConfig& config, const ParameterScope& parameters);
  std::string_view kind() const override { return "swiglu"; }
  bool projects_once() const override { return gate_.shape[0] % 8 == 0; }
  Var forward(Tape& tape, const Var& x, const Tensor& mask) override;
  Var step(Tape& tape, const Var& x, LayerState& state) override;

 private:
  const Parameter &gate_, &up_, &down_;
};

}  // namespace afterglow
