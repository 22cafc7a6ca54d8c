// Koopman MLP: the non-linearity of a position-wise layer followed by damped rotations of pairs (Echo 3.3).
#pragma once
#include "core/layers/layer.h"

namespace afterglow {

struct KoopmanMlpConfig {
  std::int64_t width = 0;  ///< d
  std::int64_t inner = 0;  ///< dk, even; the default is 8/3 d rounded up to a multiple of 64
  bool gated = false;
};

/// Capture `lambda_modulus` [dk/2]: moduli of the learned eigenvalues after the division by max(1, modulus).
class KoopmanMlp final : public Layer {
 public:
  KoopmanMlp(const KoopmanMlpConfig& config, const ParameterScope& parameters);
  std::string_view kind() const override { return "koopman_mlp"; }
  Var forward(Tape& tape, const Var& x, const Tensor& mask) override;
  Var step(Tape& tape, const Var& x, LayerState& state) override;

 private:
  void capture_moduli(Tape& tape) const;

  const Parameter &lift_, &gamma_, &omega_, &readout_;
  const Parameter* gate_ = nullptr;
};

}  // namespace afterglow
