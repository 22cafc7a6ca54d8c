// Gated KalmaNet: every token solves a ridge regression over the keys so far, by a Chebyshev iteration, and reads the
// values with the solution (GKA 4). The official layer with equally many query, key and value heads.
#pragma once
#include "core/backend/chebyshev.h"
#include "core/io/json_file.h"
#include "core/layers/layer.h"
#include "core/ops/ops.h"

namespace afterglow {

struct GkaConfig : JsonFields {
  explicit GkaConfig(const nlohmann::json& config);
  std::int64_t width = integer("hidden_size", {}, 1, 65536);   ///< d
  std::int64_t heads = integer("num_heads", {}, 1, 4096);      ///< H
  std::int64_t head_width = integer("head_dim", {}, 1, 4096);  ///< D
  std::int64_t convolution = integer("conv_size", 4, 1, 64);
  bool beta_gate = flag("use_beta_gate", true);       ///< k, v times sigmoid(b_proj x) + 1e-6
  bool alpha = flag("use_alpha_connection", true);    ///< p = q + alpha (x - q) with alpha = sigmoid(alpha_proj x)
  bool forget = flag("use_forgetting_gate", true);    ///< U_t fades
  bool output_gate = flag("use_gate", true);          ///< SiLU(g_proj x) on the output
  bool value_convolution = flag("use_v_conv", true);  ///< without it neither convolution nor SiLU
  /// Dimensions of the subspace of keys and queries (appendix H); 0: all.
  std::int64_t sketch = integer("sketch", 0, 0, head_width);
  double norm_eps = number("norm_eps", 1e-6, 0.0, 1.0);
  ChebyshevConfig core;        ///< the others of its numbers are live settings
  double alpha_override = -1;  ///< from 0 to 1: replaces alpha
  std::int64_t inner() const { return heads * head_width; }
};

/// Captures: `lambda`, `fro` = |H_t|_F [B,T,H], `xhat` [B,T,H,D]; inputs of the core: `keys`, `queries`, `values`
/// [B,T,H,D], and where there are gates `log_gate`, `alpha` [B,T,H]; and `readout` [B,T,H,D], before the norm.
class Gka final : public Layer {
 public:
  Gka(const GkaConfig& config, const ParameterScope& parameters);
  std::int64_t heads() const override { return config_.heads; }
  const GkaConfig& config() const { return config_; }
  Var forward(Tape& tape, const Var& x, const Tensor& mask) override;
  /// `H`, `S` = U^T [B,H,D,D], and the last inputs of the convolutions.
  std::vector<StateTensor> state_parts() const override;
  Var step(Tape& tape, const Var& x, LayerState& state) override;
  Var prefill(Tape& tape, const Var& x, const Tensor& mask, LayerState& state) override;
  /// Iterations, ridge strength, a fixed lambda, the smallest gate, alpha.
  std::vector<LayerSetting> settings() override;
  /// Whether the gradient flows through lambda into H; overrides bp_lambda.
  void follow_lambda(bool follow) { config_.core.lambda_grad = follow; }

 private:
  /// Parameters that only some options need.
  struct Optional {
    const Parameter *v_conv = nullptr, *b_weight = nullptr, *b_bias = nullptr, *alpha_weight = nullptr,
                    *alpha_bias = nullptr, *g_proj = nullptr, *sketch = nullptr;
  };
  static Optional add_optional(const GkaConfig& config, const ParameterScope& parameters);
  /// Keys or queries in the subspace of the sketch: the system solved there is that of S^T k and S^T q, and its
  /// solution S z is that of the projected ones, so that no kernel changes (and none is faster).
  Var sketched(Tape& tape, const Var& x) const;
  /// Storage of queries, keys, values, gate and readout for such an input.
  Storage storage(const Backend& backend, const Shape& input) const;
  /// Histories of the convolutions come from `state` when it is given.
  struct Inputs;  // of the core, and the gate of its output
  Inputs core_inputs(Tape& tape, const Var& x, const LayerState* state) const;
  /// The core's settings; alpha counts only where no input gives it.
  ChebyshevConfig core_config() const;
  Var answer(Tape& tape, const Inputs& in) const;
  /// Writes H and S after all tokens of a new state.
  void remember(Tape& tape, const Inputs& in, const LayerState& state) const;
  Var finish(Tape& tape, const Var& heads, const Inputs& in, const ChebyshevSaved& saved) const;

  GkaConfig config_;
  const Parameter &q_proj_, &k_proj_, &v_proj_, &q_conv_, &k_conv_, &a_proj_, &A_log_, &dt_bias_, &o_norm_, &o_proj_;
  Optional optional_;
};

}  // namespace afterglow
