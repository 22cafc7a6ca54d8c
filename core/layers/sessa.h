// Sessa: a whole block, LayerNorm, forward attention, feedback attention solved as a triangular system, gate, residual.
#pragma once
#include <optional>

#include "core/layers/layer.h"

namespace afterglow {

struct BlockReach;
struct CapturedLayer;
struct SourceForcing;

struct SessaConfig {
  std::int64_t width = 0;      ///< D
  std::int64_t heads = 1;      ///< n_heads of the forward branch; the feedback branch has one head of the full width
  std::int64_t key_heads = 1;  ///< n_kv_heads, divides n_heads
  bool rotary = true;          ///< use_forward_rope; the feedback branch never has a position code
  double gamma_max = 0.999;    ///< bound of the feedback gain, below 1
  double norm_eps = 1e-5;      ///< ln_eps
  bool norm = true;            ///< use_norm; without it the identity (the paper's remark 4.1)
  bool feedback = true;        ///< use_feedback; without it s = f (the paper's ablation, section 5.2)
  double temperature = 1.0;    ///< of the forward logits; 1 as trained, above diffuse, below sharp
  double feedback_temperature = 1.0;  ///< of the feedback logits
  std::int64_t head_width() const { return width / heads; }
};

/// [a, g] = W_in LN(x), u = GELU(a); f = causal attention of u; gamma_t = gamma_max tanh(gamma_bias + gamma_ctx u_t);
/// s_t = f_t + gamma_t sum_{j<t} alpha_fb[t,j] s_j; y = x + W_out(s * g) (Sessa 3.1, 3.2).
/// Captures: `input` [B,T,D], x; `attn` [B, n_heads, T, T] and `alpha_fb` [B,T,T], the weights of both branches,
/// `gamma` [B,T], `f`, `s` [B,T,D], `values` [B, T, n_kv_heads, D / n_heads], and for sequences of up to 1,024 tokens
/// `solve_jacobian` [B,T,T] = (I - diag(gamma) alpha_fb)^-1 (eq. 27).
class Sessa final : public Layer {
 public:
  Sessa(const SessaConfig& config, const ParameterScope& parameters);
  std::string_view kind() const override { return "sessa"; }
  std::int64_t heads() const override { return config_.heads; }
  Var forward(Tape& tape, const Var& x, const Tensor& mask) override;
  /// `keys` (rotated) and `values` of the forward branch [B, capacity, n_kv_heads, D / n_heads], `feedback_keys` and
  /// `solution` (s) [B, capacity, 1, D]; the capacity doubles when it is full.
  LayerState make_state(Backend& backend, DType dtype, std::int64_t batch) const override;
  Var step(Tape& tape, const Var& x, LayerState& state) override;
  std::int64_t state_bytes(DType dtype, std::int64_t tokens) const override;
  std::vector<LayerSetting> settings() const override;
  void set(std::string_view key, double value) override;
  const SessaConfig& config() const { return config_; }
  /// The constants of theorem 23 for each source, from the weights and one captured sequence.
  std::vector<SourceForcing> forcing(const CapturedLayer& captured, std::span<const int> sources) const;
  /// Proposition 25 on one captured sequence, for radii up to the largest of its tokens.
  BlockReach reach(const CapturedLayer& captured) const;

 private:
  struct Host;  ///< sessa_forcing.cpp
  struct Branches {
    Var u, gate;  ///< GELU(a) and g, [B,T,D]
  };
  struct Heads {
    Var q, k, v;
  };
  struct Feedback {
    Var q, k;   ///< columns of one tensor
    Var gamma;  ///< [B,T,1]
  };
  /// The projections of u.
  struct Projections {
    Heads heads;
    Feedback feedback;  ///< with feedback only
  };
  /// Storage of the values between W_in and W_out for such an input, except u and what the solve saves.
  Storage storage(const Backend& backend, const Shape& input) const;
  Branches enter(Tape& tape, const Var& x, Storage stored) const;
  Projections project(Tape& tape, const Var& u, std::int64_t position, Storage stored) const;
  Var read(Tape& tape, const Heads& heads, Storage stored) const;
  Var leave(Tape& tape, const Var& x, const Var& s, const Var& gate) const;
  Var solve(Tape& tape, const Feedback& feedback, const Var& f) const;
  Var step_solution(Tape& tape, const Feedback& feedback, const Var& f, LayerState& state) const;
  double scale() const;
  double feedback_scale() const;

  /// A linear map with its bias.
  struct Map {
    Map(const ParameterScope& parameters, const std::string& name, std::int64_t outputs, std::int64_t inputs);
    Var operator()(Tape& tape, const Var& x, Storage stored = Storage::wide) const;
    const Parameter &weight, &bias;
  };
  SessaConfig config_;
  const Parameter *norm_weight_ = nullptr, *norm_bias_ = nullptr;  ///< with norm only
  Map in_, q_proj_, k_proj_, v_proj_, out_;
  const Parameter* out_proj_ = nullptr;  ///< with several heads
  std::optional<Map> feedback_;          ///< proj_fb and the gain: with feedback only
  const Parameter *gamma_bias_ = nullptr, *gamma_ctx_ = nullptr;
};

}  // namespace afterglow
