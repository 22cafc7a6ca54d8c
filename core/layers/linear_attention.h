// Causal linear attention: the simplest memory, a sum of v k^T without decay, a baseline for the other layers.
#pragma once
#include "core/layers/layer.h"

namespace afterglow {

struct LinearAttentionConfig {
  std::int64_t width = 0;  ///< d
  std::int64_t heads = 1;  ///< n_heads, divides d
  std::int64_t head_width() const { return width / heads; }
};

/// y_t = o_proj(D^-0.5 sum_{s <= t} (q_t . k_s) v_s): no feature map, and not divided by a sum of weights, so outputs
/// grow with the number of tokens. Captures: `final_state` [B,H,D,D] = sum v k^T; `keys`, `values` and `queries` (with
/// their factor D^-0.5) [B,T,H*D]; `readout`, the outputs of the heads before o_proj.
class LinearAttention final : public Layer {
 public:
  LinearAttention(const LinearAttentionConfig& config, const ParameterScope& parameters);
  std::string_view kind() const override { return "linear_attention"; }
  std::int64_t heads() const override { return config_.heads; }
  bool projects_once() const override { return config_.width % 8 == 0; }
  Var forward(Tape& tape, const Var& x, const Tensor& mask) override;
  Var forward_as_stepped(Tape& tape, const Var& x, NotedVars& noted) override;
  std::vector<StateSlope> state_slopes(Tape& tape, const NotedVars& noted) const override;
  std::int64_t heads_at(std::string_view place) const override;
  /// `state` [B,H,D,D] = sum v k^T.
  LayerState make_state(Backend& backend, DType dtype, std::int64_t batch) const override;
  Var step(Tape& tape, const Var& x, LayerState& state) override;
  std::int64_t state_bytes(DType dtype, std::int64_t tokens) const override;

 private:
  /// Storage of queries, keys, values and readout for such an input.
  Storage storage(const Backend& backend, const Shape& input) const;
  Var run(Tape& tape, const Var& x, const Tensor& state, bool resume, NotedVars* noted = nullptr) const;
  Shape state_shape(std::int64_t batch) const;

  LinearAttentionConfig config_;
  const Parameter &q_proj_, &k_proj_, &v_proj_, &o_proj_;
};

}  // namespace afterglow
