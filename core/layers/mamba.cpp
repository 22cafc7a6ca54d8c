// Mamba-1: a selective scan in which every channel has states of its own, between a convolution and a gate.
// Falcon-Mamba and Jamba divide time step, B and C by their root mean square.
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/io/json_file.h"
#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"
#include "core/ops/ops.h"

namespace afterglow {
namespace {

enum class ScanNorm { none, plain, weighted };

struct MambaConfig : JsonFields {
  explicit MambaConfig(const nlohmann::json& config) : JsonFields(config, "mamba") { refuse_others(); }
  std::int64_t width = integer("d_model", {}, 1, 65536);
  std::int64_t states = integer("d_state", 16, 1, 4096);  ///< N
  std::int64_t convolution = integer("d_conv", 4, 1, 64);
  std::int64_t inner = integer("d_inner", width* integer("expand", 2, 1, 64), 1, 1 << 20);  ///< channels
  std::int64_t rank = integer("dt_rank", (width + 15) / 16, 1, 65536);
  bool bias = flag("bias", false);  ///< of in_proj and out_proj
  bool convolution_bias = flag("conv_bias", true);
  /// RMS norms of time step, B and C, with weights or without.
  ScanNorm norm = choice("scan_norm", {"none", "plain", "weighted"}, ScanNorm::none);
  double norm_eps = number("norm_eps", 1e-6, 0.0, 1.0);
  std::int64_t shared() const { return rank + 2 * states; }  ///< rows of x_proj
};

/// A_log with A = 1, 2, .., N in every channel.
Initialiser log_of_places() {
  return {[](Random&, const Shape& shape, std::span<double> values) {
    const auto states = static_cast<std::size_t>(shape.last());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::log(static_cast<double>(i % states + 1));
  }};
}

/// Its heads are the channels. Captures: `final_state` [B,c,N]; inputs of the scan: `dt` and `values` [B,T,c], `keys`
/// (B), `queries` (C) [B,T,N], `log_decay` [B,T,c,N]; `readout` [B,T,c], the output of the scan before the gate, with D
/// x; `input` [B,T,d].
class Mamba final : public Layer {
 public:
  // Start values as in the official implementation.
  Mamba(const MambaConfig& config, const ParameterScope& parameters) : config_(config) {
    const auto add = [&](const char* name, const Shape& shape, Initialiser initialise) {
      return &parameters.add(name, shape, std::move(initialise));
    };
    const double taps = 1.0 / std::sqrt(static_cast<double>(config.convolution)),
                 steps = 1.0 / std::sqrt(static_cast<double>(config.rank));
    in_proj_ = add("in_proj.weight", {2 * config.inner, config.width}, fan_in_uniform());
    if (config.bias) in_bias_ = add("in_proj.bias", {2 * config.inner}, zeros());
    conv_weight_ = add("conv1d.weight", {config.inner, 1, config.convolution}, fan_in_uniform());
    if (config.convolution_bias) conv_bias_ = add("conv1d.bias", {config.inner}, uniform(-taps, taps));
    x_proj_ = add("x_proj.weight", {config.shared(), config.inner}, fan_in_uniform());
    if (config.norm == ScanNorm::weighted) {
      dt_norm_ = add("dt_norm.weight", {config.rank}, constant(1.0));
      B_norm_ = add("B_norm.weight", {config.states}, constant(1.0));
      C_norm_ = add("C_norm.weight", {config.states}, constant(1.0));
    }
    dt_proj_ = add("dt_proj.weight", {config.inner, config.rank}, uniform(-steps, steps));
    dt_bias_ = add("dt_proj.bias", {config.inner}, time_step_bias(1e-3, 1e-1));
    A_log_ = add("A_log", {config.inner, config.states}, log_of_places());
    D_ = add("D", {config.inner}, constant(1.0));
    out_proj_ = add("out_proj.weight", {config.width, config.inner}, fan_in_uniform());
    if (config.bias) out_bias_ = add("out_proj.bias", {config.width}, zeros());
  }
  std::int64_t heads() const override { return config_.inner; }
  bool projects_once() const override { return true; }
  Var forward(Tape& tape, const Var& x, const Tensor&) override {
    const Shape states{x.shape()[0], config_.inner, config_.states};
    const Tensor state = tape.wants("final_state") ? tape.scratch(states, x.value.dtype) : Tensor();
    const Var y = run(tape, x, {}, state, false);
    if (state.defined()) tape.hook("final_state", state);
    tape.hook("input", x.value);
    return y;
  }
  std::int64_t heads_at(std::string_view place) const override {
    return place == "keys" || place == "queries" ? 1 : config_.inner;
  }
  /// `convolution`: the last inputs of the convolution.
  std::vector<StateTensor> state_parts() const override {
    return {{"state", {config_.inner, config_.states}}, {"convolution", {config_.convolution - 1, config_.inner}}};
  }
  Var step(Tape& tape, const Var& x, LayerState& state) override {
    state.position += x.shape()[1];
    return run(tape, x, state.find("convolution"), state.get("state"), true);
  }

 private:
  Var run(Tape& tape, const Var& x, const Tensor& history, const Tensor& state, bool resume) const {
    const std::int64_t halves[] = {config_.inner, config_.inner};
    Var streams[2];  // x before the convolution, then the gate
    linear_columns(tape, x, tape.parameter(*in_proj_), optional_parameter(tape, in_bias_), halves, streams);
    ChannelScanVars scan;
    scan.x =
        causal_conv(tape, streams[0], tape.parameter(*conv_weight_), optional_parameter(tape, conv_bias_), history);
    const std::int64_t roles[] = {config_.rank, config_.states, config_.states};
    Var shared[3];
    linear_columns(tape, scan.x, tape.parameter(*x_proj_), {}, roles, shared);
    const Var low = normed(tape, shared[0], dt_norm_);
    scan.dt =
        softplus_bias(tape, linear(tape, contiguous(tape, low), tape.parameter(*dt_proj_)), tape.parameter(*dt_bias_));
    scan.B = normed(tape, shared[1], B_norm_);
    scan.C = normed(tape, shared[2], C_norm_);
    scan.A_log = tape.parameter(*A_log_);
    scan.D = tape.parameter(*D_);
    hook_reading(tape, scan.C, scan.B, scan.x);
    tape.hook("steps", scan.dt);
    tape.hook("gate", streams[1]);
    if (tape.wants("log_decay")) hook_scan(tape, scan);
    const Var y = channel_scan(tape, scan, state, resume);
    tape.hook("readout", y);
    return linear(tape, silu_multiply(tape, contiguous(tape, streams[1]), y), tape.parameter(*out_proj_),
                  optional_parameter(tape, out_bias_));
  }
  Var normed(Tape& tape, const Var& x, const Parameter* weight) const {
    if (config_.norm == ScanNorm::none) return x;
    if (weight != nullptr) return rms_norm(tape, contiguous(tape, x), tape.parameter(*weight), config_.norm_eps);
    const Var ones = filled(tape, {x.shape().last()}, x.value.dtype, 1.0);
    return rms_norm(tape, contiguous(tape, x), ones, config_.norm_eps);
  }
  void hook_scan(Tape& tape, const ChannelScanVars& scan) const {
    const Tensor& dt = scan.dt.value;
    tape.hook("dt", dt);
    const std::vector<double> steps = to_host(tape.backend(), dt), A_log = to_host(tape.backend(), A_log_->value);
    const auto states = static_cast<std::size_t>(config_.states);
    std::vector<double> logs(steps.size() * states);
    for (std::size_t i = 0; i < logs.size(); ++i) logs[i] = -std::exp(A_log[i % A_log.size()]) * steps[i / states];
    tape.hook("log_decay", to_device(tape, {dt.shape[0], dt.shape[1], config_.inner, config_.states}, dt.dtype, logs));
  }

  MambaConfig config_;
  // A bias or norm is null where the configuration leaves it out.
  const Parameter *in_proj_, *in_bias_ = nullptr, *conv_weight_, *conv_bias_ = nullptr, *x_proj_, *dt_norm_ = nullptr,
                             *B_norm_ = nullptr, *C_norm_ = nullptr, *dt_proj_, *dt_bias_, *A_log_, *D_, *out_proj_,
                             *out_bias_ = nullptr;
};

/// y_t = sum_s w_ts x_s + D x_t of one channel.
WeightMatrix mamba_weights(const CapturedLayer& layer, int head) {
  std::vector<double> keys = layer.of_group("keys", head, 1);
  const std::vector<double> queries = layer.of_group("queries", head, 1), steps = layer.of_head("dt", head),
                            decays = layer.of_head("log_decay", head);
  const std::size_t states = keys.size() / steps.size();
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] *= steps[i / states];
  return delta_token_weights({layer.tokens, keys, queries, {}, decays, 1.0});
}

}  // namespace

LayerKind mamba_kind() {
  return {.name = "mamba",
          .description = "Mamba-1: a selective scan in which every channel has states that fade by themselves",
          .source = "mamba_ssm Mamba; with scan_norm Falcon-Mamba's and Jamba's",
          .make = make_read<Mamba, MambaConfig>,
          .small_config = [](const SmallSizes& s) -> nlohmann::json {
            return {{"d_model", s.width}, {"d_state", 8}, {"expand", 1}};
          },
          .width_field = "d_model",
          .ink = 2,
          .readers = {.token_weights = mamba_weights, .gates = gates_of_log_decay, .state_modes = modes_of_log_decay},
          .benchmarks = {{R"({"d_model":128})", 16, 64}, {R"({"d_model":768})", 4, 2048}}};
}

}  // namespace afterglow
