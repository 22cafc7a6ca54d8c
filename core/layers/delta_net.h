// DeltaNet, gated DeltaNet, Kimi Delta Attention, gated linear attention and the exact Kalman recursion: five rules by
// which the same layer writes keys and values into a matrix and reads it.
#pragma once
#include "core/layers/layer.h"

namespace afterglow {

enum class MemoryRule { deltanet, gated_deltanet, kda, gla, kalman };
/// Normalisation of queries and keys: x / (|x| + eps), x / sqrt(|x|^2 + eps), or the identity.
enum class KeyNorm { unit, l2, none };
/// Feature map of queries and keys after projection and convolution.
enum class FeatureMap { identity, relu, elu_plus_one, sigmoid, silu };

struct DeltaNetConfig {
  MemoryRule rule = MemoryRule::deltanet;
  std::int64_t width = 0;            ///< d
  std::int64_t heads = 1;            ///< H
  std::int64_t keys = 0, value = 0;  ///< Dk, Dv of a head
  std::int64_t convolution = 4;      ///< conv_size
  bool convolves = true;             ///< use_short_conv; by default where conv_size is not 1
  /// Heads of queries, keys and values, each of which divides H: several heads of the memory read the same one. gla's
  /// gates belong to its keys.
  std::int64_t query_heads = 1, key_heads = 1, value_heads = 1;
  bool key_silu = true, value_silu = true;  ///< qk_silu, v_silu: SiLU after the projection or its convolution
  FeatureMap feature_map = FeatureMap::identity;
  KeyNorm key_norm = KeyNorm::unit;  ///< qk_norm
  bool learns_beta = true;           ///< use_beta; false: 1
  bool negative_modes = false;       ///< allow_neg_eigval: beta times 2
  double least_log_decay = 0;        ///< clamp_min of gla, where `clamps`
  bool clamps = false;
  std::int64_t gate_rank = 16;   ///< of the gates of gla and kda
  bool output_gate = true;       ///< use_gate
  std::int64_t output_rank = 0;  ///< output_gate_rank: the gate's projection through so many numbers; 0: one matrix
  bool sigmoid_gate = false;     ///< gate_activation: sigmoid in the place of SiLU
  double norm_eps = 1e-5;
  double ridge = 0.1;  ///< lambda of kalman
  // Settings that the user may change during training.
  double beta_factor = 1.0;  ///< on beta; 0 writes nothing
  double fade = 1.0;         ///< on the logarithm of the decay; 0 never forgets
  bool fades() const { return rule == MemoryRule::gated_deltanet || fades_by_channel(); }
  bool fades_by_channel() const { return rule == MemoryRule::kda || rule == MemoryRule::gla; }
  bool has_beta() const { return rule != MemoryRule::gla; }
  std::int64_t query_columns() const { return query_heads * keys; }
  std::int64_t key_columns() const { return key_heads * keys; }
  std::int64_t input_columns() const { return value_heads * value; }
  std::int64_t value_columns() const { return heads * value; }
};

/// q, k, v by projection, causal convolution and SiLU; q and k of length 1 (not in gla); beta = sigmoid(b_proj x),
/// unless the configuration says otherwise; log decay g = -exp(A_log) softplus(a_proj x + dt_bias) a head
/// (gated_deltanet), -exp(A_log) softplus(f_proj x + dt_bias) a channel (kda; A_log a head) or logsigmoid(gk_proj x) /
/// 16 a channel (gla). The core is core/backend/delta.h with scale Dk^-0.5; in `kalman` it is recursive least squares,
/// S_t = argmin lambda |S|^2 + sum_s beta_s |S^T k_s - v_s|^2 (GKA eq. 3 and KF), y_t = S_t^T q_t. Then RMSNorm a head,
/// times silu(g_proj x) or its sigmoid, o_proj. Captures: `queries`, `keys`, `values` as the core takes them, `beta`,
/// `log_decay`, `readout`, `final_state` [B,H,Dk,Dv].
class DeltaNet final : public Layer {
 public:
  DeltaNet(const DeltaNetConfig& config, const ParameterScope& parameters);
  std::string_view kind() const override;
  std::int64_t heads() const override { return config_.heads; }
  Var forward(Tape& tape, const Var& x, const Tensor& mask) override;
  /// `state` [B,H,Dk,Dv]; `covariance` [B,H,Dk,Dk] of kalman; `q_convolution`, ...: the last inputs of the
  /// convolutions.
  LayerState make_state(Backend& backend, DType dtype, std::int64_t batch) const override;
  Var step(Tape& tape, const Var& x, LayerState& state) override;
  std::int64_t state_bytes(DType dtype, std::int64_t tokens) const override;
  std::vector<LayerSetting> settings() const override;
  void set(std::string_view key, double value) override;
  const DeltaNetConfig& config() const { return config_; }

 private:
  struct Gates {  // absent where the rule does not have the gate
    const Parameter *b_proj = nullptr, *a_proj = nullptr, *A_log = nullptr, *dt_bias = nullptr, *down = nullptr,
                    *up = nullptr, *gk_bias = nullptr, *g_down = nullptr, *g_proj = nullptr;
  };
  static Gates add_gates(const DeltaNetConfig& config, const ParameterScope& parameters);
  struct Stream;      // of queries, keys or values
  struct GateInputs;  // projections of an input
  struct Inputs;      // of the core, and the gate of its output
  GateInputs project_gates(Tape& tape, const Var& x) const;
  Tensor history_of(const Stream& stream, const LayerState* state) const;
  Var read_tokens(Tape& tape, const Stream& stream, const LayerState* state) const;
  Var read_key(Tape& tape, const Stream& stream, const LayerState* state) const;
  Var beta(Tape& tape, const Var& x, const Var& projected) const;
  /// Storage of queries, keys, values and gate for such an input.
  Storage storage(const Backend& backend, const Shape& input) const;
  Inputs core_inputs(Tape& tape, const Var& x, const LayerState* state) const;
  Var log_gate(Tape& tape, const Var& projected) const;
  Var read(Tape& tape, const struct DeltaVars& in, const Tensor& state, const Tensor& covariance, bool resume) const;
  Var finish(Tape& tape, const Inputs& in, const Var& heads) const;

  DeltaNetConfig config_;
  const Parameter &q_proj_, &k_proj_, &v_proj_, *q_conv_, *k_conv_, *v_conv_;
  const Gates gates_;
  const Parameter &o_norm_, &o_proj_;
};

}  // namespace afterglow
