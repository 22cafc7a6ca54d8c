// Gated KalmaNet: projections, convolutions and gates around the Chebyshev core.
#include "core/layers/gka.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/io/json_file.h"
#include "core/layers/layer_kind.h"

namespace afterglow {

namespace {

constexpr double unit_eps = 1e-6;  // added to the lengths of q and k, and to beta

GkaConfig read_config(const nlohmann::json& config) {
  const std::string where = "gka";
  refuse_unknown_keys(
      config,
      {"hidden_size", "head_dim", "num_heads", "num_iter", "ridge_strength", "chunk_size", "use_beta_gate",
       "use_alpha_connection", "use_forgetting_gate", "use_forgetting_gate_kk", "use_gate", "use_v_conv", "conv_size",
       "gla_rescale", "bp_lambda", "norm_eps", "solver_type", "fixed_lambda", "sketch"},
      where);
  GkaConfig c;
  c.width = get_integer(config, "hidden_size", std::nullopt, 1, 65536, where);
  c.heads = get_integer(config, "num_heads", std::nullopt, 1, 4096, where);
  c.head_width = get_integer(config, "head_dim", std::nullopt, 1, 4096, where);
  c.convolution = get_integer(config, "conv_size", 4, 1, 64, where);
  c.beta_gate = get_bool(config, "use_beta_gate", true, where);
  c.alpha = get_bool(config, "use_alpha_connection", true, where);
  c.forget = get_bool(config, "use_forgetting_gate", true, where);
  c.output_gate = get_bool(config, "use_gate", true, where);
  c.value_convolution = get_bool(config, "use_v_conv", true, where);
  c.sketch = get_integer(config, "sketch", 0, 0, c.head_width, where);
  c.norm_eps = get_number(config, "norm_eps", 1e-6, 0.0, 1.0, where);
  c.core.iterations = static_cast<int>(get_integer(config, "num_iter", 30, 0, 100000, where));
  c.core.ridge = get_number(config, "ridge_strength", 0.02, 0.0, 1e6, where);
  c.core.fixed_lambda = get_number(config, "fixed_lambda", 0.0, 0.0, 10.0, where);
  c.core.chunk = get_integer(config, "chunk_size", 64, 1, 1 << 20, where);
  c.core.lambda_grad = get_bool(config, "bp_lambda", true, where);
  c.core.decay_keys = get_bool(config, "use_forgetting_gate_kk", true, where);
  const bool rescale = get_bool(config, "gla_rescale", true, where);
  c.core.scale = rescale ? 1.0 / std::sqrt(static_cast<double>(c.head_width)) : 1.0;
  get_choice(config, "solver_type", {"chebyshev"}, "chebyshev", where);
  return c;
}

/// P = S S^T of a random S [D,d] with orthonormal columns.
Initialiser projection_onto(std::int64_t dimensions) {
  return {[dimensions](Random& random, const Shape& shape, std::span<double> values) {
    const std::int64_t width = shape[0];
    std::vector<double> S(static_cast<std::size_t>(width * dimensions));
    orthogonal().fill(random, {width, dimensions}, S);
    const double* rows = S.data();
    for (std::int64_t i = 0; i < width; ++i) {
      for (std::int64_t j = 0; j < width; ++j)
        values[static_cast<std::size_t>(i * width + j)] =
            std::inner_product(rows + i * dimensions, rows + (i + 1) * dimensions, rows + j * dimensions, 0.0);
    }
  }};
}

}  // namespace

// Start values as in the official implementation: A uniform in (0, 16], time steps log-uniform in [0.001, 0.1].
Gka::Gka(const GkaConfig& config, const ParameterScope& parameters)
    : config_(config),
      q_proj_(parameters.add("q_proj.weight", {config.inner(), config.width}, fan_in_uniform())),
      k_proj_(parameters.add("k_proj.weight", {config.inner(), config.width}, fan_in_uniform())),
      v_proj_(parameters.add("v_proj.weight", {config.inner(), config.width}, fan_in_uniform())),
      q_conv_(parameters.add("q_conv1d.weight", {config.inner(), 1, config.convolution}, fan_in_uniform())),
      k_conv_(parameters.add("k_conv1d.weight", {config.inner(), 1, config.convolution}, fan_in_uniform())),
      a_proj_(parameters.add("a_proj.weight", {config.heads, config.width}, fan_in_uniform())),
      A_log_(parameters.add("A_log", {config.heads}, log_of_uniform(1e-3, 16.0))),
      dt_bias_(parameters.add("dt_bias", {config.heads}, time_step_bias(1e-3, 1e-1))),
      o_norm_(parameters.add("o_norm.weight", {config.head_width}, constant(1.0))),
      o_proj_(parameters.add("o_proj.weight", {config.width, config.inner()}, fan_in_uniform())),
      optional_(add_optional(config, parameters)) {}

Gka::Optional Gka::add_optional(const GkaConfig& config, const ParameterScope& parameters) {
  Optional added;
  const double bound = 1.0 / std::sqrt(static_cast<double>(config.width));
  const auto matrix = [&](const char* name, std::int64_t rows) {
    return &parameters.add(name, {rows, config.width}, fan_in_uniform());
  };
  const auto bias = [&](const char* name) { return &parameters.add(name, {config.heads}, uniform(-bound, bound)); };
  if (config.value_convolution)
    added.v_conv = &parameters.add("v_conv1d.weight", {config.inner(), 1, config.convolution}, fan_in_uniform());
  if (config.beta_gate) {
    added.b_weight = matrix("b_proj.weight", config.heads);
    added.b_bias = bias("b_proj.bias");
  }
  if (config.alpha) {
    added.alpha_weight = matrix("alpha_proj.weight", config.heads);
    added.alpha_bias = bias("alpha_proj.bias");
  }
  if (config.output_gate) added.g_proj = matrix("g_proj.weight", config.inner());
  if (config.sketch > 0) {
    Parameter& projection =
        parameters.add("sketch", {config.head_width, config.head_width}, projection_onto(config.sketch));
    projection.decay = false;  // it keeps its random start values: no gradient reaches it
    added.sketch = &projection;
  }
  return added;
}

Var Gka::sketched(Tape& tape, const Var& x) const {
  return optional_.sketch ? linear(tape, x, tape.constant(optional_.sketch->value)) : x;
}

struct Gka::Inputs : ChebyshevVars {
  Var gate;  // of the heads' outputs; undefined without a gate
};

// Convolutions and the norm of heads accept any storage of queries, keys, values and gate, so the core decides.
Storage Gka::storage(const Backend& backend, const Shape& input) const {
  const GkaConfig& c = config_;
  if (!c.output_gate || !c.value_convolution || optional_.sketch) return Storage::wide;
  const Tensor columns(nullptr, input.with_last(c.inner()), DType::f32);
  if (!backend.makes_unit_heads(columns, k_conv_.value, c.head_width)) return Storage::wide;
  ChebyshevInputs sizes;
  sizes.q.shape = {input[0], input[1], c.heads, c.head_width};
  return backend.reads_out_narrow(core_config(), sizes) ? Storage::narrow : Storage::wide;
}

Gka::Inputs Gka::core_inputs(Tape& tape, const Var& x, const LayerState* state) const {
  const auto history = [&](const char* name) { return state && config_.convolution > 1 ? state->get(name) : Tensor(); };
  Var weights[] = {tape.parameter(q_proj_), tape.parameter(k_proj_), tape.parameter(v_proj_), {}}, projected[4];
  const std::size_t count = config_.output_gate ? 4 : 3;
  if (config_.output_gate) weights[3] = tape.parameter(*optional_.g_proj);
  const Storage stored = state == nullptr ? storage(tape.backend(), x.shape()) : Storage::wide;
  linear_many(tape, x, {weights, count}, {projected, count}, {}, stored);
  Inputs in;
  in.gate = projected[3];
  const auto of_unit_length = [&](const Var& y, const Parameter& taps, const char* name) {
    return unit_causal_conv(tape, y, tape.parameter(taps), config_.head_width, unit_eps, history(name));
  };
  in.q = sketched(tape, of_unit_length(projected[0], q_conv_, "q_convolution"));
  in.k = sketched(tape, of_unit_length(projected[1], k_conv_, "k_convolution"));
  in.v = projected[2];
  if (optional_.v_conv) in.v = causal_conv(tape, in.v, tape.parameter(*optional_.v_conv), {}, history("v_convolution"));
  in.v = tape.reshape(in.v, {x.shape()[0], x.shape()[1], config_.heads, config_.head_width});
  if (config_.beta_gate) {
    const Var beta = unary(tape, Unary::sigmoid,
                           linear(tape, x, tape.parameter(*optional_.b_weight), tape.parameter(*optional_.b_bias)));
    in.k = multiply_rows(tape, in.k, beta, unit_eps);
    in.v = multiply_rows(tape, in.v, beta, unit_eps);
  }
  if (config_.forget) {
    in.g = log_decay(tape, linear(tape, x, tape.parameter(a_proj_)), tape.parameter(A_log_), tape.parameter(dt_bias_));
  }
  if (config_.alpha && config_.alpha_override < 0) {
    in.alpha = unary(tape, Unary::sigmoid,
                     linear(tape, x, tape.parameter(*optional_.alpha_weight), tape.parameter(*optional_.alpha_bias)));
  }
  tape.place("queries", in.q);
  tape.place("keys", in.k);
  tape.place("values", in.v);
  if (in.g.defined()) tape.place("decay", in.g);
  return in;
}

ChebyshevConfig Gka::core_config() const {
  ChebyshevConfig core = config_.core;
  if (config_.alpha_override >= 0) core.alpha = config_.alpha_override;
  return core;
}

Var Gka::finish(Tape& tape, const Var& heads, const Inputs& in, const ChebyshevSaved& saved) const {
  tape.capture("queries", in.q.value);
  tape.capture("keys", in.k.value);
  tape.capture("values", in.v.value);
  if (in.g.defined()) tape.capture("log_gate", in.g.value);
  if (in.alpha.defined()) tape.capture("alpha", in.alpha.value);
  tape.capture("lambda", saved.lambda);
  tape.capture("fro", saved.fro);
  tape.capture("xhat", saved.x);
  tape.place("readout", heads);
  tape.capture("readout", heads.value);
  if (in.gate.defined()) tape.place("gate", in.gate);
  const Var y = normed_heads(tape, heads, in.gate, tape.parameter(o_norm_), config_.norm_eps);
  return linear(tape, y, tape.parameter(o_proj_));
}

Var Gka::forward(Tape& tape, const Var& x, const Tensor&) {
  const Inputs in = core_inputs(tape, x, nullptr);
  ChebyshevSaved saved;
  const Var heads = chebyshev_readout(tape, core_config(), in, &saved);
  return finish(tape, heads, in, saved);
}

LayerState Gka::make_state(Backend& backend, DType dtype, std::int64_t batch) const {
  LayerState state(backend);
  for (const char* name : {"H", "S"})
    state.add(name, {batch, config_.heads, config_.head_width, config_.head_width}, dtype);
  if (config_.convolution == 1) return state;
  const Shape history{batch, config_.convolution - 1, config_.inner()};
  state.add("q_convolution", history, dtype);
  state.add("k_convolution", history, dtype);
  if (config_.value_convolution) state.add("v_convolution", history, dtype);
  return state;
}

Var Gka::step(Tape& tape, const Var& x, LayerState& state) {
  ++state.position;
  const Inputs in = core_inputs(tape, x, &state);
  ChebyshevSaved saved;
  const Var heads = chebyshev_step(tape, core_config(), in, {state.get("H"), state.get("S")}, &saved);
  for (const char* name : {"H", "S"}) tape.capture(name, state.get(name));
  return finish(tape, heads, in, saved);
}

std::int64_t Gka::state_bytes(DType dtype, std::int64_t) const {
  const std::int64_t memory = 2 * config_.inner() * config_.head_width;
  const std::int64_t history = convolutions() * (config_.convolution - 1) * config_.inner();
  return (memory + history) * static_cast<std::int64_t>(size_of(dtype));
}

std::vector<LayerSetting> Gka::settings() const {
  return {
      {"r", "Iterations r", "steps of the Chebyshev iteration", static_cast<double>(config_.core.iterations), 0, 200,
       false, true},
      {"a", "Ridge strength a", "λ_t = a |H_t|_F; κ stays below (a + 1)/a", config_.core.ridge, 1e-4, 1, true, false},
      {"lambda", "Fixed λ", "the same λ for every token; 0: λ_t = a |H_t|_F", config_.core.fixed_lambda, 0, 10, false,
       false},
      {"gate_floor", "Gate floor", "the forgetting gate is at least this; 0: as learned", config_.core.gate_floor, 0, 1,
       false, false},
      {"alpha", "α", "weight of the solution against q; below 0: as learned", config_.alpha_override, -1, 1, false,
       false}};
}

void Gka::set(std::string_view key, double value) {
  if (key == "r") config_.core.iterations = static_cast<int>(value);
  if (key == "a") config_.core.ridge = value;
  if (key == "lambda") config_.core.fixed_lambda = value;
  if (key == "gate_floor") config_.core.gate_floor = value;
  if (key == "alpha") config_.alpha_override = value;
}

LayerKind gka_kind() {
  return {.name = "gka",
          .description = "Gated KalmaNet: ridge regression over fading keys for every token, by a Chebyshev iteration",
          .source = "Gated KalmaNet 4",
          .make = [](const nlohmann::json& config, const ParameterScope& parameters) -> std::unique_ptr<Layer> {
            return std::make_unique<Gka>(read_config(config), parameters);
          },
          .small_config = [](const SmallSizes& s) -> nlohmann::json {
            return {{"hidden_size", s.width}, {"head_dim", s.head_width}, {"num_heads", s.heads}};
          },
          .width_field = "hidden_size",
          .ink = 3,
          .race_place = 3,
          .readers = gka_readers(),
          .benchmarks = {{R"({"hidden_size":1024,"num_heads":8,"head_dim":128})", 4, 8192, "8 heads x 128"}}};
}

}  // namespace afterglow
