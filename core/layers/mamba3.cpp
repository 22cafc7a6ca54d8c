// Mamba-3 with one input and one output a head (SISO): a selective scan by the trapezoidal rule whose decay each token
// sets, keys and queries rotated by angles that grow with the time steps; no convolution.
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "core/io/json_file.h"
#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"
#include "core/layers/scan_slopes.h"
#include "core/ops/ops.h"

namespace afterglow {
namespace {

struct Mamba3Config : JsonFields {
  explicit Mamba3Config(const nlohmann::json& config) : JsonFields(config, "mamba3") {
    integer("ngroups", 1, 1, 1);
    const bool is_mimo = flag("is_mimo", false);
    refuse_others();
    if (is_mimo) refuse(": is_mimo true (several inputs and outputs a head) is not offered; set is_mimo to false");
    if (inner % head_width != 0)
      refuse(": headdim ", head_width, " must divide expand * d_model = ", inner, "; change one of the three");
    if (lifted() && states % 2 != 0)
      refuse(": invariant_lift and harmonics square pairs, and d_state ", states,
             " is odd; make it even or leave them out");
  }
  std::int64_t width = integer("d_model", {}, 1, 65536);
  std::int64_t states = integer("d_state", 128, 1, 4096);  ///< N
  std::int64_t inner = width * integer("expand", 2, 1, 64);
  std::int64_t head_width = integer("headdim", 64, 1, 65536);  ///< P
  /// Pairs of a key that rotate.
  std::int64_t turned =
      static_cast<std::int64_t>(std::floor(static_cast<double>(states) * number("rope_fraction", 0.5, 0.0, 1.0) / 2.0));
  StepFloors floors{number("A_floor", 1e-4, 0.0, 1e6), number("dt_floor", 0.0, 0.0, 1.0)};  ///< the second is live
  bool norm_heads = flag("is_outproj_norm", false);
  /// Squares of pairs instead of keys and queries.
  PairSquares squares{flag("invariant_lift", false), flag("harmonics", false)};
  double norm_eps = number("norm_eps", 1e-5, 0.0, 1.0);
  std::int64_t heads() const { return inner / head_width; }
  bool lifted() const { return squares.invariant || squares.harmonics; }
  /// Numbers of a key in the scan.
  std::int64_t projected_width() const { return 2 * inner + 2 * states + 3 * heads() + turned; }
  std::int64_t key_width() const { return lifted() ? squares.width(states) : states; }
};

/// Running sums over the tokens of values [B,T,width].
void sum_over_tokens(std::vector<double>& values, std::int64_t tokens, std::int64_t width) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (static_cast<std::int64_t>(i) / width % tokens > 0) values[i] += values[i - static_cast<std::size_t>(width)];
  }
}

/// Captures: `final_state` [B,nh,P,M], `log_decay_cumsum` [B,T,nh], `angle_cumsum` [B,T,nh,na] (not reduced modulo 2
/// pi), `final_k` [B,nh,M], `final_v` [B,nh,P]; inputs of the scan: `keys`, `queries` [B,T,nh,M], `values`
/// [B,T,nh*P], the weights `dt` and `lag` [B,T,nh]; and `readout`, the output of the scan before the gate. M is the key
/// width.
class Mamba3 final : public Layer {
 public:
  // Start values as in the official implementation: keys and queries biased by 1, time steps log-uniform in [0.001,
  // 0.1].
  Mamba3(const Mamba3Config& config, const ParameterScope& parameters)
      : config_(config),
        in_proj_(parameters.add("in_proj.weight", {config.projected_width(), config.width}, fan_in_uniform())),
        dt_bias_(parameters.add("dt_bias", {config.heads()}, time_step_bias(1e-3, 1e-1))),
        B_bias_(parameters.add("B_bias", {config.heads(), 1, config.states}, constant(1.0))),
        C_bias_(parameters.add("C_bias", {config.heads(), 1, config.states}, constant(1.0))),
        B_norm_(parameters.add("B_norm.weight", {config.states}, constant(1.0))),
        C_norm_(parameters.add("C_norm.weight", {config.states}, constant(1.0))),
        D_(parameters.add("D", {config.heads()}, constant(1.0))),
        norm_(config.norm_heads ? &parameters.add("norm.weight", {config.inner}, constant(1.0)) : nullptr),
        out_proj_(parameters.add("out_proj.weight", {config.width, config.inner}, fan_in_uniform())) {}
  std::int64_t heads() const override { return config_.heads(); }
  bool projects_once() const override { return true; }
  Var forward(Tape& tape, const Var& x, const Tensor&) override {
    const Projected in = project(tape, x, {}, storage(tape.backend(), x.shape()));
    if (!tape.wants("final_state")) return finish(tape, in, ssd_scan(tape, in.scan));
    const Tensor state =
        tape.scratch({x.shape()[0], config_.heads(), config_.head_width, config_.key_width()}, x.value.dtype);
    const Var heads = ssd_scan(tape, in.scan, state);
    tape.hook("final_state", state);
    return finish(tape, in, heads);
  }
  // The scan computes every token as `step` does.
  Var forward_as_stepped(Tape& tape, const Var& x) override {
    const Projected in = project(tape, x, {});
    tape.hook("log_decay", in.scan.log_decay);
    tape.hook("lag", in.scan.lag);
    if (config_.turned > 0) tape.hook("theta", in.theta);
    return finish(tape, in, ssd_scan(tape, in.scan));
  }
  std::vector<StateSlope> state_slopes(Tape& tape, const HookedVars& hooked) const override {
    HookedScan scan{config_.heads(),
                    config_.heads(),
                    to_host(tape, hooked.at("log_decay")),
                    to_host(tape, hooked.at("queries")),
                    gradient_to_host(tape, hooked.at("readout")),
                    to_host(tape, hooked.at("lag")),
                    to_host(tape, hooked.at("values")),
                    to_host(tape, hooked.at("keys"))};
    for (double& decay : scan.decay) decay = std::exp(decay);
    std::vector<StateSlope> slopes = slopes_of_scan(scan);
    if (config_.turned == 0) return slopes;
    // All later angles are sums that contain the carried one.
    const std::vector<double> own = gradient_to_host(tape, hooked.at("theta"));
    const auto width = static_cast<std::size_t>(config_.heads() * config_.turned);
    std::vector<double> angle(own.size(), 0.0);
    for (std::size_t i = own.size() - width; i-- > 0;) angle[i] = angle[i + width] + own[i + width];
    slopes.push_back({"angle", std::move(angle)});
    return slopes;
  }
  std::int64_t heads_at(std::string_view place) const override {
    return place == "values" || place == "steps" || place == "gate" ? config_.heads() : 1;
  }
  /// `key` and `value` of the last token, `angle` in [-pi, pi].
  std::vector<StateTensor> state_parts() const override {
    const std::int64_t heads = config_.heads(), keys = config_.key_width(), values = config_.head_width;
    return {{"state", {heads, values, keys}},
            {"key", {heads, keys}},
            {"value", {heads, values}},
            {"angle", {heads, config_.turned}}};
  }
  // First the previous token enters, without decay and without an output; then the token itself. In front of several
  // tokens there is no previous one.
  Var step(Tape& tape, const Var& x, LayerState& state) override {
    const std::int64_t batch = x.shape()[0], tokens = x.shape()[1], key_columns = config_.heads() * config_.key_width();
    state.position += tokens;
    const Projected in = project(tape, x, state.find("angle"));
    const Tensor key = state.get("key"), value = state.get("value");
    ScanVars before;
    before.x = tape.constant(value.reshaped({batch, 1, config_.inner}));
    before.B = before.C = tape.constant(key.reshaped({batch, 1, key_columns}));
    before.dt = in.scan.lag;
    before.heads = before.groups = config_.heads();
    if (tokens == 1) ssd_scan(tape, before, state.get("state"), true);
    const Var heads = ssd_scan(tape, in.scan, state.get("state"), tokens == 1);
    tape.backend().copy(key.reshaped({batch, key_columns}),
                        last_token(in.scan.B.value.reshaped({batch, tokens, key_columns})));
    tape.backend().copy(value.reshaped({batch, config_.inner}), last_token(in.scan.x.value));
    return finish(tape, in, heads);
  }
  std::vector<LayerSetting> settings() override { return {step_floor_setting(config_.floors.step)}; }

 private:
  /// Inputs of the gate and the scan; the angles are computed from dt [B,T,nh] and turn [B,T,na].
  struct Projected {
    Var gate, dt, turn, theta;
    ScanVars scan;
  };
  /// Storage of the projections of such an input.
  // The scan decides: gate, steps, angles and rotated keys accept narrow numbers of any size, pair squares do not.
  Storage storage(const Backend& backend, const Shape& input) const {
    if (config_.lifted() || config_.inner % 8 != 0) return Storage::wide;
    ScanInputs sizes;
    sizes.heads = sizes.groups = static_cast<int>(config_.heads());
    sizes.x.shape = input.with_last(config_.inner);
    sizes.B.shape = sizes.C.shape = input.with_last(config_.heads() * config_.states);
    return backend.plan(sizes).stored;
  }
  Projected project(Tape& tape, const Var& x, const Tensor& carried_angle, Storage stored = Storage::wide) const {
    const std::int64_t inner = config_.inner, states = config_.states, heads = config_.heads();
    const std::int64_t widths[] = {inner, inner, states, states, 3 * heads, config_.turned};
    Var parts[6];  // z, x, B, C, then dt, A and trap together, then the rates of the angles
    linear_columns(tape, x, tape.parameter(in_proj_), {}, widths, parts, stored);
    const std::int64_t of_heads[] = {heads, heads, heads, heads};
    Var steps[4];  // dt, log decay, the weights of the token and of its predecessor
    tape.split_columns(trapezoid_steps(tape, parts[4], tape.parameter(dt_bias_), config_.floors), of_heads, steps);
    Projected in;
    in.gate = parts[0];
    in.dt = steps[0];
    in.turn = parts[5];
    if (config_.turned > 0) in.theta = rotary_angles(tape, in.dt, in.turn, carried_angle);
    in.scan.x = parts[1];
    in.scan.B = key_of(tape, parts[2], B_norm_, B_bias_, in.theta);
    in.scan.C = key_of(tape, parts[3], C_norm_, C_bias_, in.theta);
    in.scan.log_decay = steps[1];
    in.scan.dt = steps[2];
    in.scan.lag = steps[3];
    in.scan.D = tape.parameter(D_);
    in.scan.heads = in.scan.groups = heads;
    hook_reading(tape, in.scan.C, in.scan.B, in.scan.x);
    tape.hook("steps", in.scan.dt);
    tape.hook("gate", in.gate);
    if (tape.wants("log_decay_cumsum")) hook_inputs(tape, in);
    return in;
  }
  Var key_of(Tape& tape, const Var& x, const Parameter& norm, const Parameter& bias, const Var& theta) const {
    const Var key = rotate_heads(tape, x, tape.parameter(norm), tape.parameter(bias), theta, config_.norm_eps);
    return config_.lifted() ? pair_squares(tape, key, config_.squares) : key;
  }
  Var finish(Tape& tape, const Projected& in, const Var& heads) const {
    tape.hook("readout", heads);
    const Var weight = norm_ ? tape.parameter(*norm_) : Var{};
    const Var gated = gated_heads(tape, heads, in.gate, weight, config_.norm_eps);
    const Shape& s = heads.shape();
    return linear(tape, tape.reshape(gated, {s[0], s[1], config_.inner}), tape.parameter(out_proj_));
  }
  void hook_inputs(Tape& tape, const Projected& in) const {
    const Tensor &keys = in.scan.B.value, values = in.scan.x.value;
    const std::int64_t batch = keys.shape[0], tokens = keys.shape[1], heads = config_.heads(), pairs = config_.turned;
    tape.hook("dt", in.scan.dt.value);
    tape.hook("lag", in.scan.lag.value);
    const std::int64_t key_columns = heads * config_.key_width();
    const Tensor last_key = gathered(tape, last_token(keys.reshaped({batch, tokens, key_columns})));
    tape.hook("final_k", last_key.reshaped({batch, heads, config_.key_width()}));
    tape.hook("final_v", gathered(tape, last_token(values)).reshaped({batch, heads, config_.head_width}));
    std::vector<double> decay = to_host(tape.backend(), in.scan.log_decay.value);
    sum_over_tokens(decay, tokens, heads);
    tape.hook("log_decay_cumsum", to_device(tape, {batch, tokens, heads}, keys.dtype, decay));
    if (pairs == 0) return;
    const std::vector<double> dt = to_host(tape.backend(), in.dt.value), turn = to_host(tape.backend(), in.turn.value);
    std::vector<double> angle;
    for (std::size_t i = 0; i < dt.size(); ++i) {
      const std::size_t row = i / static_cast<std::size_t>(heads), count = static_cast<std::size_t>(pairs);
      for (std::size_t pair = 0; pair < count; ++pair)
        angle.push_back(dt[i] * std::numbers::pi * std::tanh(turn[row * count + pair]));
    }
    sum_over_tokens(angle, tokens, heads * pairs);
    tape.hook("angle_cumsum", to_device(tape, {batch, tokens, heads, pairs}, keys.dtype, angle));
  }

  Mamba3Config config_;
  const Parameter &in_proj_, &dt_bias_, &B_bias_, &C_bias_, &B_norm_, &C_norm_, &D_;
  const Parameter* norm_;  ///< only with norm_heads
  const Parameter& out_proj_;
};

WeightMatrix mamba3_weights(const CapturedLayer& layer, int head) {
  return trapezoid_token_weights(layer.of_head("keys", head), layer.of_head("queries", head), layer.of_head("dt", head),
                                 layer.of_head("lag", head), layer.of_head("log_decay_cumsum", head), layer.tokens);
}

}  // namespace

LayerKind mamba3_kind() {
  return {
      .name = "mamba3",
      .description = "Mamba-3: a selective scan by the trapezoidal rule, with keys that turn as time passes",
      .source = "Mamba-3, SISO",
      .make = make_read<Mamba3, Mamba3Config>,
      .small_config = [](const SmallSizes& s) -> nlohmann::json {
        return {{"d_model", s.width}, {"d_state", 16}, {"expand", 2}, {"headdim", s.head_width}};
      },
      .width_field = "d_model",
      .ink = 2,
      .readers = {.token_weights = mamba3_weights, .gates = gates_of_running_sum, .state_modes = modes_of_running_sum},
      .benchmarks = {{R"({"d_model":128,"d_state":16,"expand":2,"headdim":64})", 16, 64},
                     {R"({"d_model":448,"d_state":64,"expand":2,"headdim":64})", 8, 2048}}};
}

}  // namespace afterglow
