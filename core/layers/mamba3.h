// Mamba-3 with one input and one output a head (SISO): a selective scan by the trapezoidal rule whose decay each token
// sets, keys and queries rotated by angles that grow with the time steps; no convolution.
#pragma once
#include "core/layers/layer.h"

namespace afterglow {

struct Mamba3Config {
  std::int64_t width = 0;        ///< d_model
  std::int64_t states = 128;     ///< d_state, N
  std::int64_t inner = 0;        ///< expand * d_model
  std::int64_t head_width = 64;  ///< headdim, P
  std::int64_t turned = 0;       ///< floor(N rope_fraction / 2): pairs of a key that rotate
  StepFloors floors;             ///< A_floor and, live, dt_floor
  bool norm_heads = false;       ///< is_outproj_norm
  PairSquares squares;           ///< invariant_lift, harmonics: squares of pairs instead of keys and queries
  double norm_eps = 1e-5;
  std::int64_t heads() const { return inner / head_width; }
  bool lifted() const { return squares.invariant || squares.harmonics; }
  /// Numbers of a key in the scan.
  std::int64_t key_width() const { return lifted() ? squares.width(states) : states; }
};

/// Captures: `final_state` [B,nh,P,M], `log_decay_cumsum` [B,T,nh], `angle_cumsum` [B,T,nh,na] (not reduced modulo 2
/// pi), `final_k` [B,nh,M], `final_v` [B,nh,P]; inputs of the scan: `keys`, `queries` [B,T,nh,M], `values`
/// [B,T,nh*P], the weights `dt` and `lag` [B,T,nh]; and `readout`, the output of the scan before the gate. M is the key
/// width.
class Mamba3 final : public Layer {
 public:
  Mamba3(const Mamba3Config& config, const ParameterScope& parameters);
  std::string_view kind() const override { return "mamba3"; }
  std::int64_t heads() const override { return config_.heads(); }
  bool projects_once() const override { return true; }
  Var forward(Tape& tape, const Var& x, const Tensor& mask) override;
  Var forward_as_stepped(Tape& tape, const Var& x, NotedVars& noted) override;
  std::vector<StateSlope> state_slopes(Tape& tape, const NotedVars& noted) const override;
  std::int64_t heads_at(std::string_view place) const override;
  /// `state` [B,nh,P,M], the last token's `key` [B,nh,M] and `value` [B,nh,P], and `angle` [B,nh,na] in [-pi, pi].
  LayerState make_state(Backend& backend, DType dtype, std::int64_t batch) const override;
  Var step(Tape& tape, const Var& x, LayerState& state) override;
  std::int64_t state_bytes(DType dtype, std::int64_t tokens) const override;
  std::vector<LayerSetting> settings() const override { return {step_floor_setting(config_.floors.step)}; }
  void set(std::string_view key, double value) override;

 private:
  struct Projected;
  /// Storage of the projections of such an input.
  Storage storage(const Backend& backend, const Shape& input) const;
  Projected project(Tape& tape, const Var& x, const Tensor& carried_angle, Storage stored = Storage::wide) const;
  Var key_of(Tape& tape, const Var& x, const Parameter& norm, const Parameter& bias, const Var& theta) const;
  Var finish(Tape& tape, const Projected& in, const Var& heads) const;
  void capture_inputs(Tape& tape, const Projected& in) const;

  Mamba3Config config_;
  const Parameter &in_proj_, &dt_bias_, &B_bias_, &C_bias_, &B_norm_, &C_norm_, &D_;
  const Parameter* norm_;  ///< only with norm_heads
  const Parameter& out_proj_;
};

}  // namespace afterglow
