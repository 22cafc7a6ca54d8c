// Spectral Koopman Attention: a linear operator is fitted to the keys of the context by ridge regression, and a query
// reads the values through its K-th power (Echo 3.2).
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "core/analysis/koopman/edited_operator.h"
#include "core/analysis/koopman/ska_head.h"
#include "core/io/json_file.h"
#include "core/layers/layer.h"
#include "core/ops/ops.h"

namespace afterglow {

struct SkaConfig : JsonFields {
  explicit SkaConfig(const nlohmann::json& config);
  /// By which powers of beta = sigmoid(beta_proj x) a token's key and value are written; of the key's first factor in G
  /// and M alone where `asymmetric`.
  struct WriteGate {
    double key, value;
    bool asymmetric = false;
  };

  std::int64_t width = integer("d", {}, 1, 65536);        ///< d
  std::int64_t heads = integer("H", {}, 1, 4096);         ///< H
  std::int64_t rank = integer("r", {}, 1, 4096);          ///< r
  std::int64_t value_width = integer("P", {}, 1, 65536);  ///< P
  /// Where the learned output gain eta starts (Echo, appendix G.2: 1.5 or 2.5).
  double first_eta = number("eta", 1.5, -1e6, 1e6);
  std::optional<double> first_gamma{};  ///< where gamma starts; without it in the middle of gamma_range
  /// `mask` as three numbers in [0, 1]: the weights of filler, facts and questions in the sums; in masked mode.
  std::optional<std::array<double, 3>> soft_mask{};
  bool lags_values = false;  ///< values "lagged": C = sum v_t z_{t-1}^T, with the value behind each counted key
  /// Taps of a causal convolution of each channel of v (G.1: 4); 0: none.
  std::int64_t value_taps = integer("value_conv", 0, 0, 64);
  /// Keys and queries are |.|^2 of r pairs of projected numbers, which no rotation of a pair changes (Echo, eq. 28).
  bool lifts_keys = flag("invariant_lift", false);
  bool norms_tokens = false;           ///< norm_scope "token": each key and query by its own length (Echo, remark 5)
  double clip = 0;                     ///< norm_scope "clip": c, to which longer keys and queries are cut; 0: none
  bool is_gated = is_sigmoid("gate");  ///< sigma(w_h x_t) times the output of head h (Echo 6.1)
  std::optional<WriteGate> write_gate{};
  bool has_read_gate = is_sigmoid("read_gate");       ///< y = eta C L^-T ((1 - lambda) + lambda A^K) L^-1 q
  bool has_unit_scale = false;                        ///< m is 1
  std::optional<Bounds> eta_range{};                  ///< eta is learned as eta_raw between these
  bool has_layer_scale = flag("layer_scale", false);  ///< each channel of the output times a learned number
  RidgeConfig core;                                   ///< K, ridge, mode, chunk, power_iters, norm_scope, gamma_range

  /// Whether a token reads the sums of the tokens in front of it, exactly: chunk 1. `step` then reads before it writes.
  bool excludes_itself() const { return core.mode == RidgeConfig::Mode::chunk && core.chunk == 1; }
  /// Whether a key is squared, divided, cut or weighted by what its own token says or by its role.
  bool changes_keys() const { return lifts_keys || norms_tokens || clip > 0 || write_gate || soft_mask; }
  std::int64_t projected() const { return lifts_keys ? 2 * rank : rank; }  ///< numbers of a projected key

 private:
  bool is_sigmoid(const char* gate) { return word(gate, {"none", "sigmoid"}, "none") == "sigmoid"; }
  std::optional<Bounds> bounds(const char* range);
  void read_mask(const std::string& mode);
};

/// Captures, each [B,H,..], with the chunk (mode chunk) or the step (mode recurrent) as a further axis after H: `G`,
/// `M` [r,r] (divided by m^2, without ridge), `L`, `A_w` [r,r], `Cv` [P,r], `m`, `sigma`, `jitter` []; and `keys`,
/// `queries` [B,T,H,r], `values` [B,T,H,P] as the sums take them; `readout` [B,T,H,P], the outputs of the heads before
/// o_proj; with gates `beta`, `lambda` [B,T,H].
class Ska final : public Layer {
 public:
  Ska(const SkaConfig& config, const ParameterScope& parameters);
  std::int64_t heads() const override { return config_.heads; }
  bool is_causal() const override;
  bool reads_later_tokens() const override;
  bool projects_once() const override {
    return !config_.is_gated && !config_.write_gate && !config_.lifts_keys && config_.value_taps == 0 &&
           config_.heads * config_.rank % 8 == 0 && config_.heads * config_.value_width % 8 == 0;
  }
  const Parameter& q_proj() const { return q_proj_; }  ///< [H r, d]
  const Parameter& o_proj() const { return o_proj_; }  ///< [d, H P]
  const Parameter& eta() const { return eta_; }        ///< [H]: eta, or with a range eta_raw
  /// The gain that a number of `eta` stands for.
  double eta_of(double stored) const { return config_.eta_range ? config_.eta_range->at(stored) : stored; }
  const Parameter& gamma_raw() const { return gamma_raw_; }  ///< [H]
  /// K and ridge as they are now.
  const SkaConfig& config() const { return config_; }
  /// Masked mode needs the mask; the other modes ignore it.
  Var forward(Tape& tape, const Var& x, const Tensor& mask) override;
  /// The recurrent form over a whole sequence; with chunk 1 that is `forward`.
  Var forward_as_stepped(Tape& tape, const Var& x) override;
  bool records_as_stepped() const override { return config_.excludes_itself() || !config_.lags_values; }
  std::vector<StateSlope> state_slopes(Tape& tape, const HookedVars& hooked) const override;
  /// As `forward` without a gradient, with the edit applied. The host computes edited heads in float64, the kernel the
  /// others. Additional captures: `operator` [B,H,groups,r,r]: W, which replaces A^K; with weights of tokens, as with a
  /// soft mask, `root_weights` [B,T,H], their square roots.
  Var forward_edited(Tape& tape, const Var& x, const Tensor& mask, const LayerEdit& edit);
  /// With which weight the sums take a token: the painted one, that of a soft mask, or 1 where the mask counts its
  /// role, 0 elsewhere.
  double sum_weight(const SumWeights& painted, int token, std::uint8_t role) const;
  /// 2 r^2 + P r + r + 1 numbers a head, and the inputs of a convolution of values.
  std::vector<StateTensor> state_parts() const override;
  /// The recurrent form for every mode of `forward`, without the own token where chunk is 1. m grows with the keys, and
  /// the statistics are rescaled; where the state keeps its scale, m stays, which is the running form with the ridge
  /// eps (m / max |z|)^2.
  Var step(Tape& tape, const Var& x, LayerState& state) override;
  Var prefill(Tape& tape, const Var& x, const Tensor& mask, LayerState& state) override;
  /// K and ridge.
  std::vector<LayerSetting> settings() override;

 private:
  Plan plan(const Backend& backend, const Shape& input) const;
  /// Storage of keys, queries and values for such an input.
  Storage storage(const Backend& backend, const Shape& input) const;
  /// `history`: of the convolution of values before x, which it moves on; undefined at the start of a sequence.
  RidgeVars project(Tape& tape, const Var& x, Storage stored = Storage::wide, const Tensor& history = {}) const;
  /// The rest of the pass, under the edit if one is given.
  Var answer(Tape& tape, const Var& x, const Tensor& mask, RidgeVars vars, RidgeConfig core,
             const LayerEdit* edit = nullptr) const;
  /// Writes the sums after all tokens of a new state.
  void remember(Tape& tape, RidgeVars vars, LayerState& state) const;
  /// Divides or cuts keys and queries, and weights keys and values by the write gate.
  void weight(Tape& tape, const Var& x, RidgeVars& vars) const;
  /// Weights w of tokens: G = sum w z z^T, M = sum (w_t w_{t-1})^1/2 z_t z_{t-1}^T, C = sum w v z^T, as a write gate
  /// "sqrt" has them with beta = w, and |w^1/2 z| in the place of |z| in m. They hold the mask, so `core` loses it.
  /// `roots` [B,T,H]: w^1/2, painted or those of a soft mask.
  void weigh(Tape& tape, const Tensor& roots, RidgeConfig& core, RidgeVars& vars) const;
  Tensor painted_roots(Tape& tape, const SumWeights& painted, const Tensor& mask, DType dtype) const;
  Tensor soft_roots(Tape& tape, const Tensor& mask, DType dtype) const;
  /// The heads' outputs: what `answer(core)` gives, or with a read gate lambda of that and 1 - lambda of the same with
  /// K = 0, which is asked for first. Both fill `saved`.
  template <class Answer>
  Var read(Tape& tape, const RidgeConfig& core, const RidgeVars& vars, RidgeSaved& saved, const Answer& answer) const;
  Var answer_edited(Tape& tape, const RidgeConfig& core, const RidgeVars& vars, const RidgeSaved& saved,
                    const Var& answers, const LayerEdit& edit) const;
  /// Joins the outputs of the heads for `x`, gated where the config says so, through o_proj.
  Var join_heads(Tape& tape, const Var& heads, const Var& x) const;

  SkaConfig config_;
  const Parameter &k_proj_, &q_proj_, &v_proj_, &o_proj_, &eta_, &gamma_raw_;
  const Parameter *gate_proj_ = nullptr, *beta_weight_ = nullptr, *beta_bias_ = nullptr, *lambda_bias_ = nullptr,
                  *layer_scale_ = nullptr, *value_conv_ = nullptr;
  Parameter* lambda_weight_ = nullptr;
};

/// Readers of its captures: token weights, the system of each group of tokens (ska_readers.cpp).
struct LayerReaders ska_readers();

}  // namespace afterglow
