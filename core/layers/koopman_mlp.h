// Koopman MLP: the non-linearity of a position-wise layer followed by damped rotations of pairs (Echo 3.3).
#pragma once
#include <complex>
#include <span>
#include <vector>

#include "core/analysis/koopman/edited_operator.h"
#include "core/layers/layer.h"

namespace afterglow {

struct KoopmanMlpConfig {
  std::int64_t width = 0;  ///< d
  std::int64_t inner = 0;  ///< dk, even; the default is 8/3 d rounded up to a multiple of 64
  bool gated = false;
  /// What the learned eigenvalues are made of: gamma + i omega within the unit disk; e^(i theta); or that times
  /// e^-softplus(s). The last two, as the options below, are those of the authors' later code.
  enum class Rotation { clamp, angle, log_radius } rotation = Rotation::clamp;
  bool norms_rows = false;       ///< lift "row_norm": row i of the lift is lift_g_i lift_v_i / |lift_v_i|
  std::int64_t mixer_block = 0;  ///< b of mixer "cayley": u <- (I + S)^-1 (I - S) u in blocks of b; 0: no mixer
};

/// Captures `lambda_modulus` [dk/2]: moduli of the learned eigenvalues after the division by max(1, modulus); with a
/// mixer its matrices `mixer` [dk/b,b,b].
class KoopmanMlp final : public Layer {
 public:
  KoopmanMlp(const KoopmanMlpConfig& config, const ParameterScope& parameters);
  std::string_view kind() const override { return "koopman_mlp"; }
  bool projects_once() const override { return gate_ == nullptr && config_.inner % 8 == 0; }
  Var forward(Tape& tape, const Var& x, const Tensor& mask) override;
  /// Number of rotating pairs, dk/2.
  std::int64_t pairs() const { return config_.inner / 2; }
  /// Lambda of each pair after the division by max(1, modulus); its conjugate is the other eigenvalue of the pair.
  std::vector<std::complex<double>> eigenvalues(Backend& backend) const;
  /// As `forward` without a gradient, with the eigenvalues that `edit_pairs` makes of these edits; a pair that is
  /// switched off gives zeros. The parameters stay unchanged.
  Var forward_edited(Tape& tape, const Var& x, std::span<const ModeEdit> edits);

 private:
  Var answer(Tape& tape, const Var& x, const Var& gamma, const Var& omega);
  void hook_moduli(Tape& tape) const;

  KoopmanMlpConfig config_;
  Parameter& lift_;
  const Parameter& first_;             // first: gamma or theta, [dk/2]
  const Parameter* second_ = nullptr;  // omega or s, [dk/2]
  const Parameter& readout_;
  const Parameter *gate_ = nullptr, *lift_g_ = nullptr, *mixer_ = nullptr;
};

}  // namespace afterglow
