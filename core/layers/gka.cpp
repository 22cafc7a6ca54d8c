// Gated KalmaNet: projections, convolutions and gates around the Chebyshev core.
#include "core/layers/gka.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/analysis/solvers/solver_steps.h"
#include "core/io/json_file.h"
#include "core/layers/captured_layer.h"
#include "core/layers/layer_kind.h"

namespace afterglow {
namespace {

constexpr double gka_unit_eps = 1e-6;  // added to the lengths of q and k, and to beta

/// max(g, log floor) for a floor above 0.
Var at_least(Tape& tape, const Var& g, double floor) {
  if (floor <= 0) return g;
  return shifted(tape, unary(tape, Unary::relu, shifted(tape, g, -std::log(floor))), std::log(floor));
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

GkaConfig::GkaConfig(const nlohmann::json& config) : JsonFields(config, "gka") {
  core.iterations = static_cast<int>(integer("num_iter", 30, 0, 100000));
  core.ridge = number("ridge_strength", 0.02, 0.0, 1e6);
  core.fixed_lambda = number("fixed_lambda", 0.0, 0.0, 10.0);
  core.chunk = integer("chunk_size", 64, 1, 1 << 20);
  core.lambda_grad = flag("bp_lambda", true);
  core.decay_keys = flag("use_forgetting_gate_kk", true);
  core.scale = flag("gla_rescale", true) ? 1.0 / std::sqrt(static_cast<double>(head_width)) : 1.0;
  word("solver_type", {"chebyshev"}, "chebyshev");
  refuse_others();
}

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
  if (!backend.plan(ConvolutionCall{columns, k_conv_.value, c.head_width}).unit_heads) return Storage::wide;
  ChebyshevInputs sizes;
  sizes.q.shape = {input[0], input[1], c.heads, c.head_width};
  return backend.plan(core_config(), sizes).stored;
}

Gka::Inputs Gka::core_inputs(Tape& tape, const Var& x, const LayerState* state) const {
  const auto history = [&](const char* name) { return state ? state->find(name) : Tensor(); };
  Var weights[] = {tape.parameter(q_proj_), tape.parameter(k_proj_), tape.parameter(v_proj_), {}}, projected[4];
  const std::size_t count = config_.output_gate ? 4 : 3;
  if (config_.output_gate) weights[3] = tape.parameter(*optional_.g_proj);
  const Storage stored = state == nullptr ? storage(tape.backend(), x.shape()) : Storage::wide;
  linear_many(tape, x, {weights, count}, {projected, count}, {}, stored);
  Inputs in;
  in.gate = projected[3];
  const auto of_unit_length = [&](const Var& y, const Parameter& taps, const char* name) {
    return unit_causal_conv(tape, y, tape.parameter(taps), config_.head_width, gka_unit_eps, history(name));
  };
  in.q = sketched(tape, of_unit_length(projected[0], q_conv_, "q_convolution"));
  in.k = sketched(tape, of_unit_length(projected[1], k_conv_, "k_convolution"));
  in.v = projected[2];
  if (optional_.v_conv) in.v = causal_conv(tape, in.v, tape.parameter(*optional_.v_conv), {}, history("v_convolution"));
  in.v = tape.reshape(in.v, {x.shape()[0], x.shape()[1], config_.heads, config_.head_width});
  if (config_.beta_gate) {
    const Var beta = unary(tape, Unary::sigmoid,
                           linear(tape, x, tape.parameter(*optional_.b_weight), tape.parameter(*optional_.b_bias)));
    in.k = multiply_rows(tape, in.k, beta, gka_unit_eps);
    in.v = multiply_rows(tape, in.v, beta, gka_unit_eps);
  }
  if (config_.forget)
    in.g = log_decay(tape, linear(tape, x, tape.parameter(a_proj_)), tape.parameter(A_log_), tape.parameter(dt_bias_));
  if (config_.alpha && config_.alpha_override < 0)
    in.alpha = unary(tape, Unary::sigmoid,
                     linear(tape, x, tape.parameter(*optional_.alpha_weight), tape.parameter(*optional_.alpha_bias)));
  hook_reading(tape, in.q, in.k, in.v);
  if (in.g.defined()) tape.hook("decay", in.g);
  return in;
}

ChebyshevConfig Gka::core_config() const {
  ChebyshevConfig core = config_.core;
  if (config_.alpha_override >= 0) core.alpha = config_.alpha_override;
  return core;
}

Var Gka::finish(Tape& tape, const Var& heads, const Inputs& in, const ChebyshevSaved& saved) const {
  if (in.g.defined()) tape.hook("log_gate", in.g.value);
  if (in.alpha.defined()) tape.hook("alpha", in.alpha.value);
  tape.hook("lambda", saved.lambda);
  tape.hook("fro", saved.fro);
  tape.hook("xhat", saved.x);
  tape.hook("readout", heads);
  if (in.gate.defined()) tape.hook("gate", in.gate);
  const Var y = normed_heads(tape, heads, in.gate, tape.parameter(o_norm_), config_.norm_eps);
  return linear(tape, y, tape.parameter(o_proj_));
}

Var Gka::forward(Tape& tape, const Var& x, const Tensor&) { return answer(tape, core_inputs(tape, x, nullptr)); }

Var Gka::answer(Tape& tape, const Inputs& in) const {
  ChebyshevSaved saved;
  const Var heads = chebyshev_readout(tape, core_config(), in, &saved);
  return finish(tape, heads, in, saved);
}

std::vector<StateTensor> Gka::state_parts() const {
  const Shape memory{config_.heads, config_.head_width, config_.head_width};
  const std::int64_t past = config_.convolution - 1, width = config_.inner();
  return {{"H", memory},
          {"S", memory},
          {"q_convolution", {past, width}},
          {"k_convolution", {past, width}},
          {"v_convolution", {config_.value_convolution ? past : 0, width}}};
}

// Both memories are the state of a selective scan that writes every key once and fades by the gate.
void Gka::remember(Tape& tape, const Inputs& in, const LayerState& state) const {
  const Shape steps{in.k.shape()[0], in.k.shape()[1], config_.heads};
  const DType dtype = in.k.value.dtype;
  ScanVars scan;
  scan.x = scan.C = in.k;
  scan.heads = scan.groups = config_.heads;
  for (const auto& [name, written] : {std::pair("S", in.v), std::pair("H", in.k)}) {
    const bool fades = in.g.defined() && (name[0] == 'S' || config_.core.decay_keys);
    scan.B = written;
    scan.dt = fades ? filled(tape, steps, dtype, 1.0) : Var{};
    scan.log_decay = fades ? at_least(tape, in.g, config_.core.gate_floor) : Var{};
    scan.lag = fades ? filled(tape, steps, dtype, 0.0) : Var{};
    ssd_scan(tape, scan, state.get(name));
  }
}

Var Gka::prefill(Tape& tape, const Var& x, const Tensor&, LayerState& state) {
  state.position += x.shape()[1];
  const Inputs in = core_inputs(tape, x, &state);
  remember(tape, in, state);
  return answer(tape, in);
}

Var Gka::step(Tape& tape, const Var& x, LayerState& state) {
  ++state.position;
  const Inputs in = core_inputs(tape, x, &state);
  ChebyshevSaved saved;
  const Var heads = chebyshev_step(tape, core_config(), in, {state.get("H"), state.get("S")}, &saved);
  for (const char* name : {"H", "S"}) tape.hook(name, state.get(name));
  return finish(tape, heads, in, saved);
}

std::vector<LayerSetting> Gka::settings() {
  return {{"r", "Iterations r", "steps of the Chebyshev iteration", config_.core.iterations, 0, 200},
          {"a", "Ridge strength a", "λ_t = a |H_t|_F; κ stays below (a + 1)/a", config_.core.ridge, 1e-4, 1, true},
          {"lambda", "Fixed λ", "the same λ for every token; 0: λ_t = a |H_t|_F", config_.core.fixed_lambda, 0, 10},
          {"gate_floor", "Gate floor", "the forgetting gate is at least this; 0: as learned", config_.core.gate_floor,
           0, 1},
          {"alpha", "α", "weight of the solution against q; below 0: as learned", config_.alpha_override, -1, 1}};
}

namespace {

/// Log decays of one head, at least the floor of the layer; zeros without a gate.
std::vector<double> log_decay_of(const CapturedLayer& layer, int head) {
  std::vector<double> decay(static_cast<std::size_t>(layer.tokens), 0.0);
  if (layer.values("log_gate").empty()) return decay;
  const double floor = layer.as<Gka>().config().core.gate_floor;
  for (int t = 0; t < layer.tokens; ++t) {
    const double g = layer.row("log_gate", t, head).front();
    decay[static_cast<std::size_t>(t)] = floor > 0 ? std::max(g, std::log(floor)) : g;
  }
  return decay;
}

WeightMatrix gka_weights(const CapturedLayer& layer, int head) {
  const GkaConfig& config = layer.as<Gka>().config();
  const std::vector<double> keys = layer.of_head("keys", head), queries = layer.of_head("queries", head),
                            solutions = layer.of_head("xhat", head);
  std::vector<double> alpha(static_cast<std::size_t>(layer.tokens),
                            config.alpha_override >= 0 ? config.alpha_override : config.core.alpha);
  if (config.alpha && config.alpha_override < 0) alpha = layer.of_head("alpha", head);
  std::vector<double> readers = queries, log_gate;
  const std::size_t width = readers.size() / alpha.size();
  for (std::size_t i = 0; i < readers.size(); ++i) readers[i] += alpha[i / width] * (solutions[i] - queries[i]);
  if (config.forget) log_gate = layer.of_head("log_gate", head);
  for (double& gate : log_gate) gate = std::max(gate, std::log(config.core.gate_floor));
  return solved_token_weights(keys, readers, log_gate, config.core.scale, layer.tokens);
}

/// Calls visit for H_t of every token in order: H_t = e^g H_{t-1} + k k^T.
template <class Visit>
void walk_keys(const CapturedLayer& layer, int head, const std::vector<double>& decay, const Visit& visit) {
  const std::size_t width = layer.row("keys", 0, head).size();
  std::vector<double> H(width * width, 0.0);
  for (int t = 0; t < layer.tokens; ++t) {
    const std::vector<double> k = layer.row("keys", t, head);
    const double kept = std::exp(decay[static_cast<std::size_t>(t)]);
    for (std::size_t i = 0; i < H.size(); ++i) H[i] = kept * H[i] + k[i / width] * k[i % width];
    visit(t, H);
  }
}

double gka_systems(const CapturedLayer& layer, std::span<const int> tokens, const SeeSystem& see) {
  for (int head = 0; head < layer.heads(); ++head) {
    std::vector<double> decay = log_decay_of(layer, head);
    // An option of the layer applies the gate to the keys, too; the captured |H_t|_F shows whether it is on.
    double norm = 0;
    walk_keys(layer, head, decay, [&](int, const std::vector<double>& H) { norm = frobenius_norm(H); });
    const double captured = layer.row("fro", layer.tokens - 1, head).front();
    if (std::abs(norm - captured) > 1e-2 * captured) std::ranges::fill(decay, 0.0);
    walk_keys(layer, head, decay, [&](int token, const std::vector<double>& H) {
      if (!std::binary_search(tokens.begin(), tokens.end(), token)) return;
      see(head, token, bounded_problem(H, layer.row("queries", token, head), layer.row("lambda", token, head).front()));
    });
  }
  const ChebyshevConfig& core = layer.as<Gka>().config().core;
  return core.fixed_lambda > 0 ? 0 : core.ridge;
}

/// Keys and values contain β already, so every measurement has the noise 1.
PairSequence gka_pairs(const CapturedLayer& layer, int head) {
  const ChebyshevConfig& core = layer.as<Gka>().config().core;
  PairSequence of{layer.tokens, layer.of_head("keys", head), layer.of_head("queries", head),
                  layer.of_head("values", head)};
  of.noise.assign(static_cast<std::size_t>(layer.tokens), 1.0);
  of.log_decay = log_decay_of(layer, head);
  of.strength = core.ridge;
  of.ridge = core.fixed_lambda;
  return of;
}

double distance_to(const std::vector<double>& read, const std::vector<double>& q) {
  double square = 0, length = 0;
  for (std::size_t i = 0; i < q.size(); ++i) {
    square += (read[i] - q[i]) * (read[i] - q[i]);
    length += q[i] * q[i];
  }
  return std::sqrt(square / length);
}

/// All iterates as the rows of one picture, and their residuals: of the system that is solved, and of H x = q, which
/// the ridge keeps above 0 even for the solution.
std::vector<StepPicture> iteration_pictures(const RidgeProblem& problem, int iterations) {
  const steps::Matrix<double> solved(problem, Arithmetic::fp64);
  std::vector<double> iterates, residuals, true_residuals;
  steps::chebyshev(solved, problem, iterations, [&](const std::vector<double>& x) {
    iterates.insert(iterates.end(), x.begin(), x.end());
    std::vector<double> read = solved.times(x);
    residuals.push_back(distance_to(read, problem.q));
    for (std::size_t i = 0; i < x.size(); ++i) read[i] -= problem.ridge * x[i];
    true_residuals.push_back(distance_to(read, problem.q));
  });
  const std::string last = std::to_string(iterations);
  StepPicture missed =
      step_picture("|r_i| / |q|",
                   "after " + last + " iterations: " + caption_number(residuals.back()) + " of the ridge system, " +
                       caption_number(true_residuals.back()) + " of H x = q",
                   residuals, iterations + 1);
  missed.cells.insert(missed.cells.end(), true_residuals.begin(), true_residuals.end());
  missed.rows = 2;
  missed.across = "iteration";
  missed.curves = {"|(H + λI) x_i − q|", "|H x_i − q|"};
  return {
      step_picture("x_i", "(H + λI) x = q: x_0 in the first row, x_" + last + " in the last", iterates, problem.size()),
      std::move(missed)};
}

/// From the key to the output: the memory, the iterates, and the readout with the last (Gated KalmaNet 4.1).
std::vector<StepPicture> gka_steps(const CapturedLayer& layer, int head) {
  const GkaConfig& config = layer.as<Gka>().config();
  const std::vector<double> k = layer.row("keys", 0, head), q = layer.row("queries", 0, head),
                            H = layer.block("H", head), U = layer.block("S", head), y = layer.row("readout", 0, head),
                            lambda = layer.row("lambda", 0, head);
  const auto width = static_cast<int>(k.size());
  if (k.empty() || lambda.empty() || H.size() != k.size() * k.size()) return {};
  const RidgeProblem problem = bounded_problem(H, q, lambda[0]);
  if (!is_solvable(problem)) return {};
  std::vector<StepPicture> pictures{
      step_picture("k", "the key of this token, of length 1 but for its β", k), step_picture("q", "its query", q),
      step_picture("H", "H = γ H + k kᵀ: which keys are remembered; λ = " + caption_number(lambda[0]), H, width)};
  for (StepPicture& picture : iteration_pictures(problem, config.core.iterations))
    pictures.push_back(std::move(picture));
  double alpha = config.alpha_override >= 0 ? config.alpha_override : config.core.alpha;
  if (config.alpha && config.alpha_override < 0) alpha = layer.row("alpha", 0, head).front();
  std::vector<double> reader = layer.row("xhat", 0, head);
  for (std::size_t i = 0; i < reader.size(); ++i) reader[i] = q[i] + alpha * (reader[i] - q[i]);
  pictures.push_back(step_picture("q'", "q + α (x − q), α = " + caption_number(alpha) + ": what reads U", reader));
  pictures.push_back(step_picture("Uᵀ", "U = γ U + v kᵀ: which value, across, belongs to which key", U, width));
  pictures.push_back(step_picture("y", "U read with q': the answer", y));
  return pictures;
}

std::vector<HeadGate> gka_gates(const CapturedLayer& layer) {
  std::vector<HeadGate> all;
  for (int head = 0; head < layer.heads(); ++head) all.push_back({head, log_decay_of(layer, head)});
  return all;
}

std::vector<std::complex<double>> gka_modes(const CapturedLayer& layer, int head) {
  const std::vector<double> decay = log_decay_of(layer, head);
  return {std::exp(std::accumulate(decay.begin(), decay.end(), 0.0) / layer.tokens)};
}

}  // namespace

LayerKind gka_kind() {
  return {.name = "gka",
          .description = "Gated KalmaNet: ridge regression over fading keys for every token, by a Chebyshev iteration",
          .source = "Gated KalmaNet 4",
          .make = make_read<Gka, GkaConfig>,
          .small_config = [](const SmallSizes& s) -> nlohmann::json {
            return {{"hidden_size", s.width}, {"head_dim", s.head_width}, {"num_heads", s.heads}};
          },
          .width_field = "hidden_size",
          .ink = 3,
          .race_place = 3,
          .readers = {.token_weights = gka_weights,
                      .systems = gka_systems,
                      .iterations = [](const CapturedLayer& layer) { return layer.as<Gka>().config().core.iterations; },
                      .gates = gka_gates,
                      .state_modes = gka_modes,
                      .pairs = gka_pairs,
                      .step_pictures = gka_steps},
          .benchmarks = {{R"({"hidden_size":1024,"num_heads":8,"head_dim":128})", 4, 8192, "8 heads x 128"}}};
}

}  // namespace afterglow
