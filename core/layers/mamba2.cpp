// Mamba-2.
#include "core/layers/mamba2.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/analysis/influence/smooth_routing.h"
#include "core/analysis/influence/state_slopes.h"
#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"
#include "core/layers/scan_slopes.h"
#include "core/ops/ops.h"

namespace afterglow {

namespace {

Mamba2Config read_config(const nlohmann::json& config) {
  const std::string where = "mamba2";
  refuse_unknown_keys(
      config,
      {"d_model", "d_state", "d_conv", "expand", "d_inner", "headdim", "ngroups", "bias", "out_bias", "conv_bias",
       "rmsnorm", "norm_per_group", "norm_before_gate", "in_scales", "norm_eps", "dt_floor", "dt_ceiling"},
      where);
  Mamba2Config c;
  c.width = get_integer(config, "d_model", std::nullopt, 1, 65536, where);
  c.states = get_integer(config, "d_state", 64, 1, 4096, where);
  c.convolution = get_integer(config, "d_conv", 4, 1, 64, where);
  const double inner = static_cast<double>(c.width) * get_number(config, "expand", 2, 1.0 / 64, 64, where);
  c.inner = std::llround(inner);
  if (static_cast<double>(c.inner) != inner)
    throw Error(ExitCode::bad_input, "mamba2: expand * d_model must be a whole number; change one of the two");
  c.inner = get_integer(config, "d_inner", c.inner, 1, 1 << 20, where);
  c.head_width = get_integer(config, "headdim", 64, 1, 65536, where);
  c.norm_eps = get_number(config, "norm_eps", 1e-5, 0.0, 1.0, where);
  constexpr double largest_step = 1e6;
  c.step_floor = get_number(config, "dt_floor", 0.0, 0.0, largest_step, where);
  if (config.contains("dt_ceiling"))
    c.step_ceiling = get_number(config, "dt_ceiling", std::nullopt, c.step_floor, largest_step, where);
  c.groups = get_integer(config, "ngroups", 1, 1, 64, where);
  c.bias = get_bool(config, "bias", false, where);
  c.out_bias = get_bool(config, "out_bias", c.bias, where);
  c.convolution_bias = get_bool(config, "conv_bias", true, where);
  c.gated_norm = get_bool(config, "rmsnorm", true, where);
  c.norm_per_group = get_bool(config, "norm_per_group", false, where);
  c.norm_before_gate = get_bool(config, "norm_before_gate", false, where);
  const std::vector<std::string> streams{"gate", "x", "B", "C", "dt"};
  const nlohmann::json scales = config.value("in_scales", nlohmann::json::object());
  refuse_unknown_keys(scales, streams, "mamba2.in_scales");
  for (const std::string& stream : streams)
    if (!scales.empty()) c.scales.push_back(get_number(scales, stream, 1.0, -1e6, 1e6, "mamba2.in_scales"));
  if (c.inner % c.head_width != 0) {
    throw Error(ExitCode::bad_input, "mamba2: headdim " + std::to_string(c.head_width) +
                                         " must divide expand * d_model = " + std::to_string(c.inner) +
                                         "; change one of the three");
  }
  if (c.heads() % c.groups != 0) {
    throw Error(ExitCode::bad_input, "mamba2: ngroups " + std::to_string(c.groups) + " must divide the " +
                                         std::to_string(c.heads()) + " heads; change one of the two");
  }
  return c;
}

/// Adds a parameter, or returns null for a part that the configuration leaves out.
const Parameter* add_if(bool wanted, const ParameterScope& parameters, const char* name, const Shape& shape,
                        Initialiser initialise) {
  return wanted ? &parameters.add(name, shape, std::move(initialise)) : nullptr;
}

Var optional_parameter(Tape& tape, const Parameter* parameter) {
  return parameter != nullptr ? tape.parameter(*parameter) : Var();
}

}  // namespace

// Start values as in the official implementation: A uniform in [1, 16], time steps log-uniform in [0.001, 0.1].
Mamba2::Mamba2(const Mamba2Config& config, const ParameterScope& parameters)
    : config_(config),
      in_proj_(parameters.add("in_proj.weight", {config.inner + config.convolved() + config.heads(), config.width},
                              fan_in_uniform())),
      in_bias_(add_if(config.bias, parameters, "in_proj.bias", {config.inner + config.convolved() + config.heads()},
                      zeros())),
      conv_weight_(parameters.add("conv1d.weight", {config.convolved(), 1, config.convolution}, fan_in_uniform())),
      conv_bias_(add_if(config.convolution_bias, parameters, "conv1d.bias", {config.convolved()},
                        uniform(-1.0 / std::sqrt(static_cast<double>(config.convolution)),
                                1.0 / std::sqrt(static_cast<double>(config.convolution))))),
      dt_bias_(parameters.add("dt_bias", {config.heads()}, time_step_bias(1e-3, 1e-1))),
      A_log_(parameters.add("A_log", {config.heads()}, log_of_uniform(1.0, 16.0))),
      D_(parameters.add("D", {config.heads()}, constant(1.0))),
      norm_(add_if(config.gated_norm, parameters, "norm.weight", {config.inner}, constant(1.0))),
      out_proj_(parameters.add("out_proj.weight", {config.width, config.inner}, fan_in_uniform())),
      out_bias_(add_if(config.out_bias, parameters, "out_proj.bias", {config.width}, zeros())) {}

Var Mamba2::gated(Tape& tape, const Var& y, const Var& z) const {
  if (!config_.gated_norm) return silu_multiply(tape, contiguous(tape, z), y);
  const Var weight = tape.parameter(*norm_);
  const std::int64_t groups = config_.norm_per_group ? config_.groups : 1;
  if (config_.norm_before_gate)
    return silu_multiply(tape, contiguous(tape, z), group_rms_norm(tape, y, weight, config_.norm_eps, groups));
  if (!config_.norm_per_group) return gated_rms_norm(tape, y, z, weight, config_.norm_eps);
  return group_rms_norm(tape, silu_multiply(tape, contiguous(tape, z), y), weight, config_.norm_eps, groups);
}

Var Mamba2::scaled(Tape& tape, const Var& rows) const {
  if (config_.scales.empty() || !rows.defined()) return rows;
  const std::int64_t widths[] = {config_.inner, config_.inner, config_.shared(), config_.shared(), config_.heads()};
  const Tensor all = tape.scratch({rows.shape()[0]}, rows.value.dtype);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < config_.scales.size(); begin += widths[i++])
    tape.backend().fill(all.column_range(begin, widths[i]), config_.scales[i]);
  const Var factors = tape.constant(all);
  return rows.shape().rank() == 1 ? multiply(tape, rows, factors) : multiply_rows(tape, rows, factors, 0.0);
}

// The norm and the scan decide: projection and convolution accept narrow numbers of any size.
Storage Mamba2::storage(const Backend& backend, const Shape& input) const {
  if (!config_.gated_norm || config_.norm_per_group || config_.norm_before_gate || config_.inner % 8 != 0)
    return Storage::wide;
  ScanInputs sizes;
  sizes.heads = static_cast<int>(config_.heads());
  sizes.groups = static_cast<int>(config_.groups);
  sizes.x.shape = input.with_last(config_.inner);
  sizes.B.shape = sizes.C.shape = input.with_last(config_.shared());
  return backend.scans_narrow(sizes) ? Storage::narrow : Storage::wide;
}

Var Mamba2::run(Tape& tape, const Var& x, const Tensor& history, const Tensor& state, bool resume,
                NotedVars* noted) const {
  const std::int64_t widths[] = {config_.inner, config_.convolved(), config_.heads()};
  Var parts[3];  // z, then x, B and C before the convolution, then dt
  linear_columns(tape, x, scaled(tape, tape.parameter(in_proj_)), scaled(tape, optional_parameter(tape, in_bias_)),
                 widths, parts,
                 noted == nullptr && !history.defined() ? storage(tape.backend(), x.shape()) : Storage::wide);
  const auto [convolved, dt] =
      conv_with_steps(tape, parts[1], tape.parameter(conv_weight_), optional_parameter(tape, conv_bias_), history,
                      parts[2], tape.parameter(dt_bias_), {config_.step_floor, config_.step_ceiling});
  const std::int64_t roles[] = {config_.inner, config_.shared(), config_.shared()};
  Var xBC[3];
  tape.split_columns(convolved, roles, xBC);
  ScanVars scan;
  scan.x = xBC[0];
  scan.B = xBC[1];
  scan.C = xBC[2];
  scan.dt = dt;
  scan.A_log = tape.parameter(A_log_);
  scan.D = tape.parameter(D_);
  scan.heads = config_.heads();
  scan.groups = config_.groups;
  tape.place("queries", scan.C);
  tape.place("keys", scan.B);
  tape.place("values", scan.x);
  tape.place("steps", scan.dt);
  tape.place("gate", parts[0]);
  if (tape.capturing()) capture_scan(tape, scan);
  const Var heads = ssd_scan(tape, scan, state, resume);
  tape.place("readout", heads);
  if (noted) {
    noted->add("inputs", parts[1]);
    noted->add("convolved", convolved);
    noted->add("dt", scan.dt);
    noted->add("C", scan.C);
    noted->add("readout", heads);
  }
  tape.capture("readout", heads.value);
  const Var y = tape.reshape(heads, {x.shape()[0], x.shape()[1], config_.inner});
  return linear(tape, gated(tape, y, parts[0]), tape.parameter(out_proj_), optional_parameter(tape, out_bias_));
}

Var Mamba2::forward(Tape& tape, const Var& x, const Tensor&) {
  if (!tape.capturing()) return run(tape, x, {}, {}, false);
  const Tensor state = tape.scratch({x.shape()[0], config_.heads(), config_.head_width, config_.states}, x.value.dtype);
  const Var y = run(tape, x, {}, state, false);
  tape.capture("final_state", state);
  tape.capture("input", x.value);
  return y;
}

// The scan computes every token as `step` does.
Var Mamba2::forward_as_stepped(Tape& tape, const Var& x, NotedVars& noted) {
  return run(tape, x, {}, {}, false, &noted);
}

std::vector<StateSlope> Mamba2::state_slopes(Tape& tape, const NotedVars& noted) const {
  const std::vector<double> A_log = to_host(tape.backend(), A_log_.value);
  NotedScan scan{config_.heads(), config_.groups, noted.values(tape, "dt"), noted.values(tape, "C"),
                 noted.gradient(tape, "readout")};
  for (std::size_t i = 0; i < scan.decay.size(); ++i)
    scan.decay[i] = std::exp(-std::exp(A_log[i % A_log.size()]) * scan.decay[i]);
  std::vector<StateSlope> slopes = slopes_of_scan(scan);
  if (config_.convolution == 1) return slopes;
  slopes.push_back(
      {"convolution",
       convolution_slopes({static_cast<std::size_t>(config_.convolved()), static_cast<std::size_t>(config_.convolution),
                           noted.values(tape, "inputs"), to_host(tape.backend(), conv_weight_.value),
                           conv_bias_ ? to_host(tape.backend(), conv_bias_->value) : std::vector<double>{},
                           noted.gradient(tape, "convolved")})});
  return slopes;
}

std::int64_t Mamba2::heads_at(std::string_view place) const {
  if (place == "values" || place == "steps" || place == "gate") return config_.heads();
  const bool is_own = config_.groups == config_.heads() && (place == "keys" || place == "queries");
  return is_own ? config_.heads() : 1;
}

LayerState Mamba2::make_state(Backend& backend, DType dtype, std::int64_t batch) const {
  LayerState state(backend);
  state.add("state", {batch, config_.heads(), config_.head_width, config_.states}, dtype);
  if (config_.convolution > 1) state.add("convolution", {batch, config_.convolution - 1, config_.convolved()}, dtype);
  return state;
}

Var Mamba2::step(Tape& tape, const Var& x, LayerState& state) {
  ++state.position;
  const Tensor history = config_.convolution > 1 ? state.get("convolution") : Tensor();
  return run(tape, x, history, state.get("state"), true);
}

std::int64_t Mamba2::state_bytes(DType dtype, std::int64_t) const {
  const std::int64_t numbers = config_.inner * config_.states + (config_.convolution - 1) * config_.convolved();
  return numbers * static_cast<std::int64_t>(size_of(dtype));
}

void Mamba2::set(std::string_view key, double value) {
  if (key == "dt_floor") config_.step_floor = value;
}

void Mamba2::capture_scan(Tape& tape, const ScanVars& scan) const {
  tape.capture("values", gathered(tape, scan.x.value));
  tape.capture("B", gathered(tape, scan.B.value));
  tape.capture("C", gathered(tape, scan.C.value));
  const Tensor& dt = scan.dt.value;
  tape.capture("dt", dt);
  std::vector<double> sums = to_host(tape.backend(), dt);
  const std::vector<double> A_log = to_host(tape.backend(), A_log_.value);
  const std::int64_t tokens = dt.shape[1], heads = dt.shape[2];
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    sums[i] *= -std::exp(A_log[i % A_log.size()]);
    if (at / heads % tokens > 0) sums[i] += sums[i - static_cast<std::size_t>(heads)];
  }
  tape.capture("log_decay_cumsum", to_device(tape, dt.shape, dt.dtype, sums));
}

namespace {

WeightMatrix token_weights(const CapturedLayer& layer, int head) {
  const auto groups = static_cast<int>(layer.as<Mamba2>().config().groups);
  return mamba2_token_weights(layer.of_group("B", head, groups), layer.of_group("C", head, groups),
                              layer.of_head("dt", head), layer.of_head("log_decay_cumsum", head), layer.tokens);
}

}  // namespace

LayerKind mamba2_kind() {
  return {
      .name = "mamba2",
      .description = "Mamba-2: a selective scan whose memory fades exponentially",
      .source = "mamba_ssm Mamba2Simple",
      .make = [](const nlohmann::json& config, const ParameterScope& parameters) -> std::unique_ptr<Layer> {
        return std::make_unique<Mamba2>(read_config(config), parameters);
      },
      .small_config = [](const SmallSizes& s) -> nlohmann::json {
        return {{"d_model", s.width}, {"d_state", 16}, {"expand", 2}, {"headdim", s.head_width}};
      },
      .width_field = "d_model",
      .ink = 2,
      .race_place = 4,
      .readers = {.token_weights = token_weights,
                  .gates = gates_of_running_sum,
                  .state_modes = modes_of_running_sum,
                  .forcing = [](const CapturedLayer& layer,
                                std::span<const int> sources) { return layer.as<Mamba2>().forcing(layer, sources); }},
      .benchmarks = {{R"({"d_model":128,"d_state":16,"expand":2,"headdim":64})", 16, 64},
                     {R"({"d_model":448,"d_state":64,"expand":2,"headdim":64})", 8, 2048},
                     {R"({"d_model":1024,"d_state":128,"expand":1,"headdim":128})", 4, 8192, "8 heads x 128"}}};
}

}  // namespace afterglow
