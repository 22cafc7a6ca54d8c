// Causal softmax attention: the exact memory that grows with every token, the reference for the other layers, with what
// plain transformers and the hybrids have: grouped key heads, a width of heads, norms of queries and keys, rotary
// position code of any rates, windows, an output gate, and keys and values made from one latent vector a token.
#pragma once
#include <array>
#include <functional>

#include "core/layers/layer.h"

namespace afterglow {

struct CapturedLayer;
struct SourceForcing;

/// What is divided by its root mean square after the projection of queries and keys, before they turn.
enum class QueryNorm { none, head, whole };

struct AttentionConfig {
  std::int64_t width = 0;            ///< d
  std::int64_t heads = 1;            ///< n_heads
  std::int64_t key_heads = 1;        ///< n_kv_heads, divides n_heads
  bool rotary = true;                ///< use_rope
  RotaryRates rates;                 ///< rope_base, rope_width, rope_scaling
  bool biases = false;               ///< qkv_bias
  std::int64_t head = 0;             ///< head_dim, D: columns of a query and a key; 0: width / heads
  std::int64_t value = 0;            ///< columns of a value; 0: D, always unless latent
  bool out_bias = false;             ///< o_bias
  QueryNorm norm = QueryNorm::none;  ///< qk_norm
  bool plus_one = false;             ///< norm_plus_one: norms multiply by 1 + weight
  double norm_eps = 1e-6;
  bool gate = false;        ///< output_gate: heads times sigmoid(gate_proj x)
  std::int64_t window = 0;  ///< each query sees so many newest keys; 0: all
  double scale = 0;         ///< of scores; D^-0.5 by default
  /// Latent attention: keys and values of all heads come from kv_rank numbers a token, but for the last shared_width
  /// columns of keys, which all heads share; queries from q_rank numbers (0: from the input). No position code.
  std::int64_t kv_rank = 0, q_rank = 0, shared_width = 0;
  bool is_plain() const;  ///< as in Vaswani et al. with RoPE: none of the options above but key heads and biases
};

/// Captures: `input` [B,T,d]; `attn` [B, n_heads, T, T]: the weights; row t is a distribution over the tokens 0..t;
/// `keys` (normed and rotated) and `values` [B, T, n_kv_heads, D] (latent values end with zeros); `readout`
/// [B, T, n_heads, D], the outputs of the heads before gate and o_proj.
class Attention final : public Layer {
 public:
  Attention(const AttentionConfig& config, const ParameterScope& parameters);
  std::string_view kind() const override { return "attention"; }
  std::int64_t heads() const override { return config_.heads; }
  bool projects_once() const override;
  Var forward(Tape& tape, const Var& x, const Tensor& mask) override;
  /// `keys` (rotated) and `values` [B, capacity, n_kv_heads, head width]; the capacity doubles when it is full.
  LayerState make_state(Backend& backend, DType dtype, std::int64_t batch) const override;
  Var step(Tape& tape, const Var& x, LayerState& state) override;
  std::int64_t state_bytes(DType dtype, std::int64_t tokens) const override;
  /// The constant of Sessa's proposition 10 (i) for each source, from the weights and one captured sequence; empty for
  /// a layer that is not plain.
  std::vector<SourceForcing> forcing(const CapturedLayer& captured, std::span<const int> sources) const;
  /// LayerReaders::query_bound. RoPE rotates queries without changing their length, so it adds no factor. NaN for a
  /// layer that is not plain.
  std::function<double()> query_bound(const CapturedLayer& captured) const;

 private:
  /// Projections as heads [B,T,heads,D], stored narrow [B,T,heads D]; queries and keys normed, not turned. `gate`
  /// [B,T,heads value columns], or undefined.
  struct Heads {
    Var q, k, v, gate;
  };
  /// Storage of queries, keys, values and head outputs for such an input.
  Storage storage(const Backend& backend, const Shape& input) const;
  Heads project(Tape& tape, const Var& x) const;
  Heads project_latent(Tape& tape, const Var& x) const;
  Var normed(Tape& tape, const Var& heads, const Parameter* weight) const;
  void turn(Tape& tape, Heads& heads, std::int64_t position) const;
  Var read(Tape& tape, const Heads& heads, const Var& k, const Var& v) const;
  double scale() const;

  AttentionConfig config_;
  /// Null where the configuration does not have them. v_proj of a latent layer is kv_b_proj, k_proj is kv_a_proj.
  const Parameter *q_proj_ = nullptr, *k_proj_ = nullptr, *v_proj_ = nullptr, *q_down_ = nullptr, *q_norm_ = nullptr,
                  *k_norm_ = nullptr, *gate_ = nullptr, *o_proj_ = nullptr, *o_bias_ = nullptr;
  std::array<const Parameter*, 4> biases_{};  ///< of q, k, v and the gate
};

}  // namespace afterglow
