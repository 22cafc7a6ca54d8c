// Sessa: a whole block, LayerNorm, forward attention, feedback attention solved as a triangular system, gate, residual.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

#include "core/analysis/attention/softmax.h"
#include "core/analysis/influence/block_bound.h"
#include "core/analysis/influence/smooth_routing.h"
#include "core/analysis/linear_algebra/decompositions.h"
#include "core/autograd/tape.h"
#include "core/io/json_file.h"
#include "core/layers/captured_layer.h"
#include "core/layers/host_values.h"
#include "core/layers/key_cache.h"
#include "core/layers/layer_kind.h"
#include "core/ops/ops.h"

namespace afterglow {
namespace {

constexpr double max_gain = 0.9999;

struct SessaConfig : JsonFields {
  explicit SessaConfig(const nlohmann::json& config) : JsonFields(config, "sessa") {
    refuse_others();
    if (width % heads != 0) refuse(": D must be a multiple of n_heads; change one of them");
    if (heads % key_heads != 0) refuse(": n_kv_heads must divide n_heads; change one of them");
  }
  std::int64_t width = integer("D", {}, 1, 65536);
  /// Of the forward branch; the feedback branch has one head of the full width.
  std::int64_t heads = integer("n_heads", {}, 1, 4096);
  std::int64_t key_heads = integer("n_kv_heads", heads, 1, heads);  ///< divides n_heads
  bool rotary = flag("use_forward_rope", true);                     ///< the feedback branch never has a position code
  double gamma_max = number("gamma_max", 0.999, 0.0, max_gain);     ///< bound of the feedback gain
  /// Where the bias of the gain starts; in the official code 1, gain 0.76.
  double first_bias = number("gamma_bias", 0.0, -10.0, 10.0);
  double norm_eps = number("ln_eps", 1e-5, 0.0, 1.0);
  bool norm = flag("use_norm", true);          ///< without it the identity (the paper's remark 4.1)
  bool feedback = flag("use_feedback", true);  ///< without it s = f (the paper's ablation, section 5.2)
  double temperature = 1.0;                    ///< of the forward logits; 1 as trained, above diffuse, below sharp
  double feedback_temperature = 1.0;           ///< of the feedback logits
  std::int64_t head_width() const { return width / heads; }
};

/// Longest sequence whose solve Jacobian is captured: it costs T^3 / 6 multiplications per sequence.
constexpr std::int64_t longest_captured_jacobian = 1024;

/// Softmax over the strict past of a matrix of scores [T,T], in place; the rest is zero.
void strict_softmax(double* scores, std::int64_t length) {
  for (std::int64_t t = 0; t < length; ++t) {
    double* row = scores + t * length;
    softmax_in_place(std::span(row, static_cast<std::size_t>(t)));
    for (std::int64_t j = t; j < length; ++j) row[j] = 0.0;
  }
}

/// (I - diag(gamma) alpha)^-1 by rows: row t is the unit row plus gamma_t alpha_t times the rows above.
void solve_jacobian(const double* alpha, const double* gamma, std::int64_t length, double* inverse) {
  for (std::int64_t t = 0; t < length; ++t) {
    double* row = inverse + t * length;
    for (std::int64_t j = 0; j < t; ++j) {
      const double weight = gamma[t] * alpha[t * length + j];
      for (std::int64_t i = 0; i <= j; ++i) row[i] += weight * inverse[j * length + i];
    }
    row[t] = 1.0;
  }
}

/// Hooks `alpha_fb` [B,T,T], `gamma` [B,T] and `solve_jacobian` [B,T,T]. q, k [B,T,D], rows may be strided; gamma
/// [B,T].
void hook_feedback(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& gamma, double scale) {
  const std::int64_t batch = q.shape[0], length = q.shape[1];
  const Tensor scores = tape.scratch({batch, length, length}, q.dtype);
  const Tensor queries = gathered(tape, q), keys = gathered(tape, k);
  for (std::int64_t b = 0; b < batch; ++b)
    tape.backend().gemm(false, true, scale, queries.at(b), keys.at(b), 0.0, scores.at(b));
  std::vector<double> alpha = to_host(tape.backend(), scores);
  for (std::int64_t b = 0; b < batch; ++b) strict_softmax(alpha.data() + b * length * length, length);
  tape.hook("alpha_fb", to_device(tape, scores.shape, q.dtype, alpha));
  tape.hook("gamma", gamma);
  if (length > longest_captured_jacobian) return;
  const std::vector<double> gains = to_host(tape.backend(), gamma);
  std::vector<double> inverse(alpha.size(), 0.0);
  for (std::int64_t b = 0; b < batch; ++b)
    solve_jacobian(alpha.data() + b * length * length, gains.data() + b * length, length,
                   inverse.data() + b * length * length);
  tape.hook("solve_jacobian", to_device(tape, scores.shape, q.dtype, inverse));
}

Initialiser bias_of(std::int64_t inputs) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(inputs));
  return uniform(-bound, bound);
}

using HostRow = Eigen::RowVectorXd;

constexpr double forward_rotary_base = 10000;

double gelu_at(double x) { return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2)); }

double gelu_slope_at(double x) {
  const double density = std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  return 0.5 * (1 + std::erf(x / std::numbers::sqrt2)) + x * density;
}

/// LayerNorm of a token and its Jacobian, or the identity.
struct EnteredToken {
  HostRow normed;
  RowMajor jacobian;
};

EnteredToken entered(const HostRow& x, const HostRow& weight, const HostRow& bias, double eps) {
  const auto width = x.size();
  if (weight.size() == 0) return {x, RowMajor::Identity(width, width)};
  const HostRow centred = x.array() - x.mean();
  const double root = std::sqrt(centred.squaredNorm() / static_cast<double>(width) + eps);
  const HostRow unit = centred / root;
  RowMajor inner = RowMajor::Identity(width, width);
  inner.array() -= 1.0 / static_cast<double>(width);
  inner -= unit.transpose() * unit / static_cast<double>(width);
  return {(unit.array() * weight.array() + bias.array()).matrix(), weight.transpose().asDiagonal() * inner / root};
}

// The values of the forward branch enter s_t with the weights (I - B_fb)^-1 alpha.
WeightMatrix sessa_weights(const CapturedLayer& layer, int head) {
  const WeightMatrix alpha = captured_softmax(layer, head);
  const std::vector<double>& jacobian = layer.values("solve_jacobian");
  if (jacobian.empty()) return alpha;  // without feedback, or for a sequence too long for the capture
  const auto shown = static_cast<std::size_t>(layer.tokens);
  const auto length = static_cast<std::size_t>(layer.read.shape(layer.name("solve_jacobian")).last());
  WeightMatrix weights(shown * shown, 0.0);
  for (std::size_t t = 0; t < shown; ++t) {
    for (std::size_t j = 0; j <= t; ++j) {
      for (std::size_t i = 0; i <= j; ++i) weights[t * shown + i] += jacobian[t * length + j] * alpha[j * shown + i];
    }
  }
  return weights;
}

/// One row of the forward substitution (Sessa eq. 12): the same for every head except for the forward read.
std::vector<StepPicture> sessa_steps(const CapturedLayer& layer, int head) {
  const std::vector<double>&f = layer.values("f"), &s = layer.values("s"), &gamma = layer.values("gamma");
  if (f.empty() || s.size() != f.size()) return {};
  const auto shares = [](StepPicture picture) {
    picture.across = "token";
    picture.curves = {picture.symbol};
    return picture;
  };
  std::vector<StepPicture> pictures{
      shares(step_picture("α", "forward read: what share of each token so far this head reads",
                          layer.block("attn", head))),
      step_picture("f_t", "Σ_{j≤t} α_{tj} v_j of all heads: what the forward attention reads", f)};
  const std::vector<double>&feedback = layer.values("alpha_fb"), &routed = layer.values("routed");
  if (gamma.empty() || routed.size() != f.size()) {
    pictures.push_back(step_picture("s_t", "s_t = f_t: there is no past yet, or no feedback", s));
    return pictures;
  }
  const std::string gain = caption_number(gamma[0]);
  pictures.push_back(
      shares(step_picture("α_fb", "feedback row: the share of each token before; row t of B is γ_t α_fb", feedback)));
  pictures.push_back(
      step_picture("r_t", "Σ_{j<t} α_fb,j s_j: the past solutions, as the feedback row weighs them", routed));
  pictures.push_back(step_picture("γ_t", "γ_max tanh(γ_b + γ_c u_t): the gain of this token", {gamma[0]}));
  pictures.push_back(step_picture("s_t", "s_t = f_t + γ_t r_t, γ_t = " + gain, s));
  return pictures;
}

/// [a, g] = W_in LN(x), u = GELU(a); f = causal attention of u; gamma_t = gamma_max tanh(gamma_bias + gamma_ctx u_t);
/// s_t = f_t + gamma_t sum_{j<t} alpha_fb[t,j] s_j; y = x + W_out(s * g) (Sessa 3.1, 3.2).
/// Captures: `input` [B,T,D], x; `attn` [B, n_heads, T, T] and `alpha_fb` [B,T,T], the weights of both branches,
/// `gamma` [B,T], `f`, `s` [B,T,D], `values` [B, T, n_kv_heads, D / n_heads], and for sequences of up to 1,024 tokens
/// `solve_jacobian` [B,T,T] = (I - diag(gamma) alpha_fb)^-1 (eq. 27).
class Sessa final : public Layer {
 public:
  // From the bias 0 the gain starts around zero, and training finds feedback of either sign.
  Sessa(const SessaConfig& config, const ParameterScope& parameters)
      : config_(config),
        norm_weight_(config.norm ? &parameters.add("ln.weight", {config.width}, constant(1.0)) : nullptr),
        norm_bias_(config.norm ? &parameters.add("ln.bias", {config.width}, zeros()) : nullptr),
        in_(parameters, "W_in", 2 * config.width, config.width),
        q_proj_(parameters, "mixer.q_proj", config.width, config.width),
        k_proj_(parameters, "mixer.k_proj", config.key_heads * config.head_width(), config.width),
        v_proj_(parameters, "mixer.v_proj", config.key_heads * config.head_width(), config.width),
        out_(parameters, "W_out", config.width, config.width) {
    const std::int64_t width = config.width;
    if (config.heads > 1) out_proj_ = &parameters.add("mixer.out_proj.weight", {width, width}, fan_in_uniform());
    if (!config.feedback) return;
    feedback_.emplace(parameters, "mixer.proj_fb", 2 * width, width);
    gamma_bias_ = &parameters.add("mixer.gamma_bias", {}, constant(config.first_bias));
    gamma_ctx_ = &parameters.add("mixer.gamma_ctx.weight", {1, width}, fan_in_uniform());
  }
  std::int64_t heads() const override { return config_.heads; }
  Var forward(Tape& tape, const Var& x, const Tensor&) override { return run(tape, x, nullptr); }
  Var prefill(Tape& tape, const Var& x, const Tensor&, LayerState& state) override { return run(tape, x, &state); }
  /// `keys` (rotated) and `values` of the forward branch, `feedback_keys` and `solution` (s).
  std::vector<StateTensor> state_parts() const override {
    const Shape token{config_.key_heads, config_.head_width()}, feedback{config_.feedback ? 1 : 0, config_.width};
    return {{"keys", token, true},
            {"values", token, true},
            {"feedback_keys", feedback, true},
            {"solution", feedback, true}};
  }
  Var step(Tape& tape, const Var& x, LayerState& state) override {
    const std::int64_t position = state.position++;
    make_room(state, {"keys", "values"});
    const Branches branches = enter(tape, x, Storage::wide);
    auto [heads, feedback] = project(tape, branches.u, position, Storage::wide);
    heads.k = tape.constant(append_tokens(tape, state.get("keys"), heads.k.value, position + 1));
    heads.v = tape.constant(append_tokens(tape, state.get("values"), heads.v.value, position + 1));
    const Var f = read(tape, heads, Storage::wide);
    if (tape.wants("attn")) tape.hook("attn", newest_weights(tape, heads.q.value, heads.k.value, scale()));
    const Var s = config_.feedback ? step_solution(tape, feedback, f, state) : f;
    tape.hook("f", f.value);
    tape.hook("s", s.value);
    return leave(tape, x, s, branches.gate);
  }
  std::vector<LayerSetting> settings() override {
    std::vector<LayerSetting> all{{"temperature", "Temperature",
                                   "divides the logits of the forward branch; above 1 diffuse", config_.temperature,
                                   0.01, 100, true}};
    if (!config_.feedback) return all;
    all.push_back({"feedback_temperature", "Feedback temperature",
                   "divides the logits of the feedback branch; above 1 diffuse, below 1 sharp",
                   config_.feedback_temperature, 0.01, 100, true});
    all.push_back({"gamma_max", "Feedback gain γ", "largest gain of the feedback; 0 switches it off", config_.gamma_max,
                   0, max_gain});
    return all;
  }
  const SessaConfig& config() const { return config_; }
  /// The constants of theorem 23 for each source, from the weights and one captured sequence.
  std::vector<SourceForcing> forcing(const CapturedLayer& captured, std::span<const int> sources) const {
    const Host host(*this, captured);
    std::vector<SourceForcing> all;
    for (const int source : sources) {
      if (!host.fits()) return {};
      all.push_back(host.of(source));
      if (all.back().forward.empty()) return {};
    }
    return all;
  }
  /// Proposition 25 on one captured sequence, for radii up to the largest of its tokens.
  BlockReach reach(const CapturedLayer& captured) const {
    const Host host(*this, captured);
    return host.fits() ? host.reach() : BlockReach{};
  }

 private:
  /// One captured sequence with the block's weights, in float64.
  struct Host {
    Host(const Sessa& block, const CapturedLayer& captured)
        : block_(block), captured_(captured), T_(captured.tokens), D_(block.config_.width) {
      const std::vector<double>&inputs = captured.values("input"), &s = captured.values("s");
      if (inputs.size() != static_cast<std::size_t>(T_ * D_) || s.size() != inputs.size()) return;
      x_ = matrix_of(inputs, T_, D_);
      s_ = matrix_of(s, T_, D_);
      enter();
      read_forward();
      is_sound_ = true;
      if (block_.config_.feedback) read_feedback();
    }
    bool fits() const { return is_sound_; }
    SourceForcing of(int source) const {
      const RowMajor J = a_.row(source).transpose().unaryExpr(&gelu_slope_at).asDiagonal() *
                         RowMajor(W_in_.topRows(D_) * entered_token(source).jacobian);
      const std::vector<double> jacobian = afterglow::stored(J);
      const auto at = static_cast<std::size_t>(source);
      SourceForcing forcing;
      forcing.source = source;
      forcing.forward = answer_sensitivity(forward_, jacobian, forward_.width, source);
      if (forcing.forward.empty()) return forcing;
      forcing.own = forcing.forward[at];
      const std::int64_t later = T_ - source - 1;
      forcing.outlet = later > 0 ? out_norm_ * gate_.bottomRows(later).cwiseAbs().maxCoeff() : 0;
      if (!block_.config_.feedback) return forcing;
      forcing.routing = answer_sensitivity(feedback_, jacobian, forward_.width, source);
      forcing.logits = logit_sensitivity(feedback_, jacobian, forward_.width, source);
      if (forcing.routing.empty()) return {};
      for (std::size_t t = 0; t < gain_.size(); ++t) forcing.routing[t] *= std::abs(gain_[t]);
      forcing.own += std::exchange(forcing.routing[at], 0) + own_gain(source, J);
      return forcing;
    }
    SessaNorms norms() const {
      const SessaConfig& config = block_.config_;
      SessaNorms norms;
      if (norm_weight_.size() > 0)
        norms.norm = {static_cast<int>(D_), norm_weight_.cwiseAbs().maxCoeff(), norm_bias_.norm(), config.norm_eps};
      norms.signal = norms_of(block_.in_.weight, block_.in_.bias, 0, D_, D_);
      norms.gate = norms_of(block_.in_.weight, block_.in_.bias, D_, D_, D_);
      const std::int64_t width = config.head_width();
      for (std::int64_t head = 0; head < config.heads; ++head) {
        const std::int64_t group = head / (config.heads / config.key_heads);
        norms.values.push_back(norms_of(block_.v_proj_.weight, block_.v_proj_.bias, group * width, width, D_));
      }
      if (block_.out_proj_ != nullptr) norms.joined = spectral_norm(matrix_of(weights(block_.out_proj_), D_, D_));
      norms.out = {out_norm_, matrix_of(weights(&block_.out_.bias), 1, D_).norm()};
      if (!config.feedback) return norms;
      norms.gain = {matrix_of(gain_weight_, 1, D_).norm(), std::abs(weights(block_.gamma_bias_).front())};
      norms.most_gain = config.gamma_max;
      return norms;
    }
    BlockReach reach() const {
      constexpr int steps = 24;
      BlockReach reach;
      const RowMajor W = matrix_of(weights(&block_.out_.weight), D_, D_),
                     b = matrix_of(weights(&block_.out_.bias), 1, D_);
      const RowMajor y = ((s_.array() * gate_.array()).matrix() * W.transpose() + x_).rowwise() + HostRow(b);
      for (std::int64_t t = 0; t < T_; ++t) {
        reach.entering.push_back(x_.row(t).norm());
        reach.leaving.push_back(y.row(t).norm());
      }
      const double largest = *std::ranges::max_element(reach.entering);
      const SessaNorms own = norms();
      for (int step = 1; step <= steps; ++step) {
        reach.radii.push_back(largest * step / steps);
        reach.bounds.push_back(sessa_reach(own, reach.radii.back()).answer);
      }
      return reach;
    }

   private:
    std::vector<double> weights(const Parameter* parameter) const {
      return parameter == nullptr ? std::vector<double>{} : captured_.read.download(parameter->value);
    }
    void enter() {
      const std::vector<double> weight = weights(block_.norm_weight_), bias = weights(block_.norm_bias_);
      norm_weight_ = matrix_of(weight, 1, static_cast<std::int64_t>(weight.size()));
      norm_bias_ = matrix_of(bias, 1, static_cast<std::int64_t>(bias.size()));
      W_in_ = matrix_of(weights(&block_.in_.weight), 2 * D_, D_);
      b_in_ = matrix_of(weights(&block_.in_.bias), 1, 2 * D_);
      a_.resize(T_, D_);
      gate_.resize(T_, D_);
      for (std::int64_t t = 0; t < T_; ++t) {
        const HostRow both = entered_token(t).normed * W_in_.transpose() + b_in_;
        a_.row(t) = both.head(D_);
        gate_.row(t) = both.tail(D_);
      }
      out_norm_ = spectral_norm(matrix_of(weights(&block_.out_.weight), D_, D_));
    }
    void read_forward() {
      const SessaConfig& config = block_.config_;
      const auto map = [&](const Map& of) { return TokenMap{weights(&of.weight), weights(&of.bias)}; };
      forward_.tokens = static_cast<int>(T_);
      forward_.width = static_cast<int>(D_);
      forward_.heads = static_cast<int>(config.heads);
      forward_.key_heads = static_cast<int>(config.key_heads);
      forward_.head_width = forward_.value_width = static_cast<int>(config.head_width());
      forward_.alpha = captured_.values("attn");
      forward_.inputs = afterglow::stored(a_.unaryExpr(&gelu_at));
      forward_.query = map(block_.q_proj_);
      forward_.key = map(block_.k_proj_);
      forward_.value = map(block_.v_proj_);
      forward_.values = captured_.values("values");
      forward_.output = weights(block_.out_proj_);
      forward_.scale = block_.scale();
      forward_.rotary_base = config.rotary ? forward_rotary_base : 0;
    }
    void read_feedback() {
      const RowMajor W = matrix_of(weights(&block_.feedback_->weight), 2 * D_, D_);
      const RowMajor b = matrix_of(weights(&block_.feedback_->bias), 1, 2 * D_);
      feedback_.tokens = forward_.tokens;
      feedback_.width = feedback_.head_width = feedback_.value_width = forward_.width;
      feedback_.alpha = captured_.values("alpha_fb");
      feedback_.inputs = forward_.inputs;
      feedback_.query = {afterglow::stored(W.topRows(D_)), afterglow::stored(b.leftCols(D_))};
      feedback_.key = {afterglow::stored(W.bottomRows(D_)), afterglow::stored(b.rightCols(D_))};
      feedback_.values = afterglow::stored(s_);  // held fixed: their effect is part of the solve
      feedback_.scale = block_.feedback_scale();
      gain_ = captured_.values("gamma");
      gain_weight_ = weights(block_.gamma_ctx_);
      is_sound_ = gain_.size() == static_cast<std::size_t>(T_);
    }
    EnteredToken entered_token(std::int64_t t) const {
      return entered(x_.row(t), norm_weight_, norm_bias_, block_.config_.norm_eps);
    }
    /// Norms of a range of rows of a linear map.
    AffineNorms norms_of(const Parameter& weight, const Parameter& bias, std::int64_t first, std::int64_t rows,
                         std::int64_t columns) const {
      const std::vector<double> W = weights(&weight), b = weights(&bias);
      const RowMajor whole = matrix_of(W, static_cast<std::int64_t>(b.size()), columns);
      const Eigen::Map<const Eigen::VectorXd> biases(b.data(), static_cast<std::int64_t>(b.size()));
      return {spectral_norm(whole.middleRows(first, rows)), biases.segment(first, rows).norm()};
    }
    /// The effect of the source token on its own row and gain of the feedback (assumptions 17 and 19).
    double own_gain(int source, const RowMajor& J) const {
      const double most = block_.config_.gamma_max, gain = gain_[static_cast<std::size_t>(source)];
      const double slope = most > 0 ? most - gain * gain / most : 0;  // of gamma_max tanh
      const HostRow routed = matrix_of(feedback_.alpha, T_, T_).row(source) * s_;
      return slope * routed.norm() * (matrix_of(gain_weight_, 1, D_) * J).norm();
    }

    const Sessa& block_;
    const CapturedLayer& captured_;
    std::int64_t T_, D_;
    bool is_sound_ = false;
    RowMajor x_, W_in_, a_, gate_, s_;
    HostRow b_in_, norm_weight_, norm_bias_;
    SmoothRouting forward_, feedback_;
    std::vector<double> gain_, gain_weight_;
    double out_norm_ = 0;
  };
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
  // Operations combine the forward read, the solve and the gate, so all are narrow or none of them: narrow where
  // attention is tiled and the smallest projection, that of f, is large enough.
  Storage storage(const Backend& backend, const Shape& input) const {
    const Storage of_heads = heads_storage(backend, input, config_.heads, config_.key_heads, config_.head_width());
    if (of_heads == Storage::wide || k_proj_.weight.shape[0] % 8 != 0) return Storage::wide;
    const Tensor rows(nullptr, {input[0] * input[1], config_.width}, DType::f32);
    return backend.plan(ProjectionCall{rows, {&q_proj_.weight.value, 1}, config_.width}).stored;
  }
  /// Over a whole sequence; fills a new state when it is given.
  Var run(Tape& tape, const Var& x, LayerState* state) const {
    tape.hook("input", x.value);
    const Storage stored = state != nullptr ? Storage::wide : storage(tape.backend(), x.shape());
    const Branches branches = enter(tape, x, stored);
    const auto [heads, feedback] = project(tape, branches.u, 0, stored);
    hook_reading(tape, heads.q, heads.k, heads.v);
    tape.hook("gate", branches.gate);
    if (tape.wants("attn")) tape.hook("attn", attention_weights(tape, heads.q.value, heads.k.value, scale()));
    const Var f = read(tape, heads, stored);
    tape.hook("f", f.value);
    const Var s = config_.feedback ? solve(tape, feedback, f) : f;
    tape.hook("readout", s);
    tape.hook("s", s.value);
    if (state != nullptr) remember(tape, heads, feedback, s.value, *state);
    return leave(tape, x, s, branches.gate);
  }
  void remember(Tape& tape, const Heads& heads, const Feedback& feedback, const Tensor& s, LayerState& state) const {
    const std::int64_t tokens = state.position += s.shape[1];
    std::vector<std::pair<const char*, Tensor>> caches{{"keys", heads.k.value}, {"values", heads.v.value}};
    if (config_.feedback)
      caches.insert(caches.end(), {{"feedback_keys", gathered(tape, feedback.k.value)}, {"solution", s}});
    for (const auto& [name, values] : caches) {
      make_room(state, {name});
      append_tokens(tape, state.get(name), values, tokens);
    }
  }
  Branches enter(Tape& tape, const Var& x, Storage stored) const {
    const Var normed =
        config_.norm ? layer_norm(tape, x, tape.parameter(*norm_weight_), tape.parameter(*norm_bias_), config_.norm_eps)
                     : x;
    const std::int64_t widths[] = {config_.width, config_.width};
    Var parts[2];  // a, then g
    tape.split_columns(in_(tape, normed, stored), widths, parts);
    return {unary(tape, Unary::gelu, parts[0]), parts[1]};
  }
  Projections project(Tape& tape, const Var& u, std::int64_t position, Storage stored) const {
    Var weights[max_projections], biases[max_projections], maps[max_projections];
    std::size_t count = 0;
    const auto add_map = [&](const Parameter& weight, const Var& bias) {
      weights[count] = tape.parameter(weight);
      biases[count++] = bias;
    };
    for (const Map* map : {&q_proj_, &k_proj_, &v_proj_}) add_map(map->weight, tape.parameter(map->bias));
    Var& gain = maps[max_projections - 1];
    if (config_.feedback) {
      add_map(feedback_->weight, tape.parameter(feedback_->bias));
      const Var bias = tape.reshape(tape.parameter(*gamma_bias_), {1});
      if (tape.may_store_narrow(stored)) {  // a column of one number does not fit between aligned vectors
        gain = linear(tape, u, tape.parameter(*gamma_ctx_), bias);
      } else {
        add_map(*gamma_ctx_, bias);
      }
    }
    linear_many(tape, u, {weights, count}, {maps, count}, {biases, count}, stored);
    const auto heads = [&](const Var& map) { return as_heads(tape, map, config_.head_width()); };
    Projections all{{heads(maps[0]), heads(maps[1]), heads(maps[2])}, {}};
    if (config_.rotary) {
      const auto [q, k] = rotary_pair(tape, all.heads.q, all.heads.k, {}, position, config_.head_width());
      all.heads.q = q;
      all.heads.k = k;
    }
    if (!config_.feedback) return all;
    const std::int64_t widths[] = {config_.width, config_.width};
    Var parts[2];
    tape.split_columns(maps[3], widths, parts);
    all.feedback = {parts[0], parts[1], afterglow::scale(tape, unary(tape, Unary::tanh, gain), config_.gamma_max)};
    return all;
  }
  Var read(Tape& tape, const Heads& heads, Storage stored) const {
    const Shape& shape = heads.q.shape();
    const Var answer = causal_attention(tape, heads.q, heads.k, heads.v, scale(), config_.head_width());
    const Var joined = tape.reshape(answer, {shape[0], shape[1], config_.width});
    return out_proj_ != nullptr ? linear(tape, joined, tape.parameter(*out_proj_), {}, stored) : joined;
  }
  Var leave(Tape& tape, const Var& x, const Var& s, const Var& gate) const {
    return add(tape, x, out_(tape, multiply(tape, s, gate)));
  }
  Var solve(Tape& tape, const Feedback& feedback, const Var& f) const {
    const auto& [q, k, gain] = feedback;
    const Var gamma = tape.reshape(gain, {f.shape()[0], f.shape()[1]});
    const Var s = feedback_solve(tape, {q, k, gamma, f}, feedback_scale());
    if (tape.wants("alpha_fb")) hook_feedback(tape, q.value, k.value, gamma.value, feedback_scale());
    return s;
  }
  // One row of the recurrence: attention over the keys and solutions of the strict past.
  Var step_solution(Tape& tape, const Feedback& feedback, const Var& f, LayerState& state) const {
    make_room(state, {"feedback_keys", "solution"});
    const std::int64_t past = state.position - 1, batch = f.shape()[0], width = config_.width;
    const auto whole = [&](const Tensor& columns) {
      const Tensor copy = tape.scratch({batch, 1, width}, columns.dtype);
      tape.backend().copy(copy, columns);
      return copy.reshaped({batch, 1, 1, width});
    };
    const Tensor keys = append_tokens(tape, state.get("feedback_keys"), whole(feedback.k.value), past + 1);
    Var s = f;
    if (past > 0) {
      const Var seen_keys = tape.constant(tokens_before(tape, keys, past));
      const Var seen_solution = tape.constant(tokens_before(tape, state.get("solution"), past));
      const Var routed =
          causal_attention(tape, tape.constant(whole(feedback.q.value)), seen_keys, seen_solution, feedback_scale());
      const Var ones = filled(tape, {width, 1}, f.value.dtype, 1.0);
      const Var gamma = linear(tape, feedback.gamma, ones);  // the same for all features
      if (tape.wants("alpha_fb")) {
        const Tensor query = whole(feedback.q.value);
        tape.hook("alpha_fb", newest_weights(tape, query, seen_keys.value, feedback_scale()));
      }
      tape.hook("gamma", feedback.gamma.value);
      tape.hook("routed", routed.value);
      s = add(tape, f, multiply(tape, gamma, tape.reshape(routed, f.shape())));
    }
    append_tokens(tape, state.get("solution"), s.value.reshaped({batch, 1, 1, width}), past + 1);
    return s;
  }
  double scale() const { return 1.0 / (config_.temperature * std::sqrt(static_cast<double>(config_.head_width()))); }
  double feedback_scale() const {
    return 1.0 / (config_.feedback_temperature * std::sqrt(static_cast<double>(config_.width)));
  }

  /// A linear map with its bias.
  struct Map {
    Map(const ParameterScope& parameters, const std::string& name, std::int64_t outputs, std::int64_t inputs)
        : weight(parameters.add(name + ".weight", {outputs, inputs}, fan_in_uniform())),
          bias(parameters.add(name + ".bias", {outputs}, bias_of(inputs))) {}
    Var operator()(Tape& tape, const Var& x, Storage stored = Storage::wide) const {
      return linear(tape, x, tape.parameter(weight), tape.parameter(bias), stored);
    }
    const Parameter &weight, &bias;
  };
  SessaConfig config_;
  const Parameter *norm_weight_ = nullptr, *norm_bias_ = nullptr;  ///< with norm only
  Map in_, q_proj_, k_proj_, v_proj_, out_;
  const Parameter* out_proj_ = nullptr;  ///< with several heads
  std::optional<Map> feedback_;          ///< proj_fb and the gain: with feedback only
  const Parameter *gamma_bias_ = nullptr, *gamma_ctx_ = nullptr;
};

}  // namespace

LayerKind sessa_kind() {
  return {.name = "sessa",
          .description = "Sessa: attention inside a feedback loop, solved as a triangular system; a whole block",
          .source = "Sessa 3",
          .make = make_read<Sessa, SessaConfig>,
          .small_config = [](const SmallSizes& s) -> nlohmann::json {
            return {{"D", s.width}, {"n_heads", s.heads}};
          },
          .whole_block = true,
          .width_field = "D",
          .ink = 4,
          .race_place = 2,
          .readers = {.token_weights = sessa_weights,
                      .step_pictures = sessa_steps,
                      .forcing = [](const CapturedLayer& layer,
                                    std::span<const int> sources) { return layer.as<Sessa>().forcing(layer, sources); },
                      .reach = [](const CapturedLayer& layer) { return layer.as<Sessa>().reach(layer); }},
          .shows = LayerTrait::feedback,
          .pair_products = 14,  // those of attention, and as many for the feedback
          .benchmarks = {{R"({"D":256,"n_heads":4})", 4, 4096},
                         {R"({"D":256,"n_heads":4})", 8, 1024},
                         {R"({"D":128,"n_heads":4})", 16, 128}}};
}

}  // namespace afterglow
