// Mamba-1: a selective scan in which every channel has states of its own, between a convolution and a gate.
// Falcon-Mamba and Jamba divide time step, B and C by their root mean square.
#pragma once
#include "core/layers/layer.h"

namespace afterglow {

enum class ScanNorm { none, plain, weighted };

struct MambaConfig {
  std::int64_t width = 0;          ///< d_model
  std::int64_t states = 16;        ///< d_state, N
  std::int64_t convolution = 4;    ///< d_conv
  std::int64_t inner = 0;          ///< d_inner: channels; expand * d_model by default
  std::int64_t rank = 0;           ///< dt_rank: d_model / 16, rounded up, by default
  bool bias = false;               ///< of in_proj and out_proj
  bool convolution_bias = true;    ///< conv_bias
  ScanNorm norm = ScanNorm::none;  ///< scan_norm: RMS norms of time step, B and C, with weights or without
  double norm_eps = 1e-6;
  std::int64_t shared() const { return rank + 2 * states; }  ///< rows of x_proj
};

/// Its heads are the channels. Captures: `final_state` [B,c,N]; inputs of the scan: `dt` and `values` [B,T,c], `keys`
/// (B), `queries` (C) [B,T,N], `log_decay` [B,T,c,N]; `readout` [B,T,c], the output of the scan before the gate, with D
/// x; `input` [B,T,d].
class Mamba final : public Layer {
 public:
  Mamba(const MambaConfig& config, const ParameterScope& parameters);
  std::string_view kind() const override { return "mamba"; }
  std::int64_t heads() const override { return config_.inner; }
  bool projects_once() const override { return true; }
  Var forward(Tape& tape, const Var& x, const Tensor& mask) override;
  std::int64_t heads_at(std::string_view place) const override;
  /// `state` [B,c,N], and `convolution` [B,d_conv-1,c]: the last inputs of the convolution.
  LayerState make_state(Backend& backend, DType dtype, std::int64_t batch) const override;
  Var step(Tape& tape, const Var& x, LayerState& state) override;
  std::int64_t state_bytes(DType dtype, std::int64_t tokens) const override;

 private:
  Var run(Tape& tape, const Var& x, const Tensor& history, const Tensor& state, bool resume) const;
  Var normed(Tape& tape, const Var& x, const Parameter* weight) const;
  void capture_scan(Tape& tape, const struct ChannelScanVars& scan) const;

  MambaConfig config_;
  // A bias or norm is null where the configuration leaves it out.
  const Parameter *in_proj_, *in_bias_ = nullptr, *conv_weight_, *conv_bias_ = nullptr, *x_proj_, *dt_norm_ = nullptr,
                             *B_norm_ = nullptr, *C_norm_ = nullptr, *dt_proj_, *dt_bias_, *A_log_, *D_, *out_proj_,
                             *out_bias_ = nullptr;
};

}  // namespace afterglow
