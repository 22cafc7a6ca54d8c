// Mamba-2 (the official Mamba2Simple, with the options of transformers and flash-linear-attention): a selective scan
// between a convolution and a gated norm. Its memory decays exponentially, with a rate that each token sets.
#pragma once
#include <limits>
#include <vector>

#include "core/layers/layer.h"

namespace afterglow {

struct CapturedLayer;
struct SourceForcing;

struct Mamba2Config {
  std::int64_t width = 0;         ///< d_model
  std::int64_t states = 64;       ///< d_state, N
  std::int64_t convolution = 4;   ///< d_conv
  std::int64_t inner = 0;         ///< d_inner; expand * d_model by default
  std::int64_t head_width = 64;   ///< headdim, P
  std::int64_t groups = 1;        ///< ngroups, G: head h reads B and C of group h / (heads / G)
  bool bias = false;              ///< of in_proj
  bool out_bias = false;          ///< of out_proj; as `bias` by default
  bool convolution_bias = true;   ///< conv_bias
  bool gated_norm = true;         ///< rmsnorm; false: the gate alone
  bool norm_per_group = false;    ///< the gated norm's mean is taken over a group's columns
  bool norm_before_gate = false;  ///< the norm comes first, then the gate
  /// in_scales {gate, x, B, C, dt}: factors of what in_proj makes, in this order; empty: ones.
  std::vector<double> scales;
  double norm_eps = 1e-5;
  double step_floor = 0.0;                                        ///< dt_floor, live: the least time step
  double step_ceiling = std::numeric_limits<double>::infinity();  ///< dt_ceiling: the largest
  std::int64_t heads() const { return inner / head_width; }
  std::int64_t shared() const { return groups * states; }          ///< columns of B, and of C
  std::int64_t convolved() const { return inner + 2 * shared(); }  ///< columns of x, B and C together
};

/// Captures: `final_state` [B,nh,P,N], `log_decay_cumsum` [B,T,nh]: sum of log a_s over s <= t, `dt` [B,T,nh]; inputs
/// of the scan: `B`, `C` [B,T,G*N] and `values` [B,T,nh*P]; `readout`, the output of the scan before the gate; and
/// `input` [B,T,d].
class Mamba2 final : public Layer {
 public:
  Mamba2(const Mamba2Config& config, const ParameterScope& parameters);
  std::string_view kind() const override { return "mamba2"; }
  std::int64_t heads() const override { return config_.heads(); }
  bool projects_once() const override { return true; }
  Var forward(Tape& tape, const Var& x, const Tensor& mask) override;
  Var forward_as_stepped(Tape& tape, const Var& x, NotedVars& noted) override;
  std::vector<StateSlope> state_slopes(Tape& tape, const NotedVars& noted) const override;
  /// Groups of heads share B and C.
  std::int64_t heads_at(std::string_view place) const override;
  /// `state` [B,nh,P,N], and `convolution` [B,d_conv-1,c]: the last inputs of the convolution.
  LayerState make_state(Backend& backend, DType dtype, std::int64_t batch) const override;
  Var step(Tape& tape, const Var& x, LayerState& state) override;
  std::int64_t state_bytes(DType dtype, std::int64_t tokens) const override;
  std::vector<LayerSetting> settings() const override { return {step_floor_setting(config_.step_floor)}; }
  void set(std::string_view key, double value) override;
  const Mamba2Config& config() const { return config_; }
  /// Sessa's proposition 4 for each source, from the weights and one captured sequence: `forward` is C e^-Delta from
  /// the first token whose convolution no longer reads the source (remark C.3), with Delta of the slowest head.
  std::vector<SourceForcing> forcing(const CapturedLayer& captured, std::span<const int> sources) const;

 private:
  struct Host;  ///< mamba2_forcing.cpp
  Var gated(Tape& tape, const Var& y, const Var& z) const;
  /// A parameter of in_proj with rows scaled by `in_scales`.
  Var scaled(Tape& tape, const Var& rows) const;
  /// Storage of the values between the projections.
  Storage storage(const Backend& backend, const Shape& input) const;
  Var run(Tape& tape, const Var& x, const Tensor& history, const Tensor& state, bool resume,
          NotedVars* noted = nullptr) const;
  void capture_scan(Tape& tape, const struct ScanVars& scan) const;

  Mamba2Config config_;
  // A bias or norm is null where the configuration leaves it out.
  const Parameter &in_proj_, *in_bias_, &conv_weight_, *conv_bias_, &dt_bias_, &A_log_, &D_, *norm_, &out_proj_,
      *out_bias_;
};

}  // namespace afterglow
