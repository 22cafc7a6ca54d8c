// Causal softmax attention with RoPE and grouped key heads: the exact memory that grows with every token, the reference
// for the other layers.
#pragma once
#include <array>
#include <functional>

#include "core/layers/layer.h"

namespace afterglow {

struct CapturedLayer;
struct SourceForcing;

struct AttentionConfig {
  std::int64_t width = 0;      ///< d
  std::int64_t heads = 1;      ///< n_heads
  std::int64_t key_heads = 1;  ///< n_kv_heads, divides n_heads
  bool rotary = true;          ///< use_rope
  double rotary_base = 10000.0;
  bool biases = false;  ///< qkv_bias
  std::int64_t head_width() const { return width / heads; }
};

/// Captures: `input` [B,T,d]; `attn` [B, n_heads, T, T]: the weights; row t is a distribution over the tokens 0..t;
/// `keys` (rotated) and `values` [B, T, n_kv_heads, D]; `readout` [B, T, n_heads, D], the outputs of the heads
/// before o_proj.
class Attention final : public Layer {
 public:
  Attention(const AttentionConfig& config, const ParameterScope& parameters);
  std::string_view kind() const override { return "attention"; }
  std::int64_t heads() const override { return config_.heads; }
  bool projects_once() const override { return q_proj_.shape[0] % 8 == 0 && k_proj_.shape[0] % 8 == 0; }
  Var forward(Tape& tape, const Var& x, const Tensor& mask) override;
  /// `keys` (rotated) and `values` [B, capacity, n_kv_heads, head width]; the capacity doubles when it is full.
  LayerState make_state(Backend& backend, DType dtype, std::int64_t batch) const override;
  Var step(Tape& tape, const Var& x, LayerState& state) override;
  std::int64_t state_bytes(DType dtype, std::int64_t tokens) const override;
  /// The constant of Sessa's proposition 10 (i) for each source, from the weights and one captured sequence.
  std::vector<SourceForcing> forcing(const CapturedLayer& captured, std::span<const int> sources) const;
  /// LayerReaders::query_bound. RoPE rotates queries without changing their length, so it adds no factor.
  std::function<double()> query_bound(const CapturedLayer& captured) const;

 private:
  /// Storage of queries, keys, values and head outputs for such an input.
  Storage storage(const Backend& backend, const Shape& input) const;
  /// x W^T as heads: q, k, v [B,T,heads,D], stored narrow [B,T,heads D].
  std::array<Var, 3> project(Tape& tape, const Var& x) const;
  std::array<Var, 2> turned(Tape& tape, const Var& queries, const Var& keys, std::int64_t position) const;
  Var read(Tape& tape, const Var& q, const Var& k, const Var& v) const;
  double scale() const;

  AttentionConfig config_;
  const Parameter &q_proj_, &k_proj_, &v_proj_;
  std::array<const Parameter*, 3> biases_;  ///< of q, k, v; null without biases biases biases
  const Parameter& o_proj_;
};

}  // namespace afterglow
