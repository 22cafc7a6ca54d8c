// DeltaNet, gated DeltaNet, Kimi Delta Attention, gated linear attention and the exact Kalman recursion: five rules by
// which the same layer writes keys and values into a matrix and reads it.
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/analysis/linear_algebra/spectrum.h"
#include "core/backend/delta.h"
#include "core/io/json_file.h"
#include "core/layers/layer_kind.h"
#include "core/ops/ops.h"

namespace afterglow {
namespace {

enum class MemoryRule { deltanet, gated_deltanet, kda, gla, kalman };

/// Normalisation of queries and keys: x / (|x| + eps), x / sqrt(|x|^2 + eps), or the identity.
enum class KeyNorm { unit, l2, none };

/// Feature map of queries and keys after projection and convolution.
enum class FeatureMap { identity, relu, elu_plus_one, sigmoid, silu };

constexpr double delta_unit_eps = 1e-6;
constexpr double gla_temperature = 16.0;  // divides gla's log gate, so that memories start long

const char* name_of(MemoryRule rule) {
  constexpr const char* names[] = {"deltanet", "gated_deltanet", "kda", "gla", "kalman"};
  return names[static_cast<int>(rule)];
}

struct DeltaNetConfig : JsonFields {
  DeltaNetConfig(MemoryRule own, const nlohmann::json& config) : JsonFields(config, name_of(own)), rule(own) {
    refuse_others();
  }
  MemoryRule rule;
  std::int64_t width = integer("d", {}, 1, 65536);
  std::int64_t heads = integer("H", 1, 1, 4096);
  std::int64_t keys = integer("Dk", std::max<std::int64_t>(1, width / heads), 1, 65536);  ///< of a head
  std::int64_t value = integer("Dv", keys, 1, 65536);
  std::int64_t convolution = integer("conv_size", 4, 1, 64);
  bool convolves = flag("use_short_conv", convolution != 1);
  /// Heads of queries, keys and values, each of which divides H: several heads of the memory read the same one. gla's
  /// gates belong to its keys.
  std::int64_t query_heads = sharing_heads("query_heads"), key_heads = sharing_heads("key_heads"),
               value_heads = sharing_heads("value_heads");
  bool key_silu = flag("qk_silu", true);  ///< SiLU after the projection or its convolution
  bool value_silu = flag("v_silu", true);
  FeatureMap feature_map =
      choice("feature_map", {"identity", "relu", "elu_plus_one", "sigmoid", "silu"}, FeatureMap::identity);
  KeyNorm key_norm = choice("qk_norm", {"unit", "l2", "none"}, has_beta() ? KeyNorm::unit : KeyNorm::none);
  bool learns_beta = !has_beta() || flag("use_beta", true);             ///< false: 1
  bool negative_modes = has_beta() && flag("allow_neg_eigval", false);  ///< beta times 2
  bool clamps = rule == MemoryRule::gla && has("clamp_min");
  double min_log_decay = clamps ? number("clamp_min", {}, -1e6, 0) : 0;
  /// Of the gates of gla and kda.
  std::int64_t gate_rank =
      fades_by_channel() ? integer("gate_rank", rule == MemoryRule::kda ? value : 16, 1, 65536) : 16;
  bool output_gate = flag("use_gate", true);
  /// The gate's projection through so many numbers; 0: one matrix.
  std::int64_t output_rank = integer("output_gate_rank", 0, 0, 65536);
  bool output_bias = flag("output_gate_bias", false);  ///< of the second of the gate's two matrices
  bool sigmoid_gate = word("gate_activation", {"silu", "sigmoid"}, "silu") == "sigmoid";  ///< in the place of SiLU
  double norm_eps = number("norm_eps", 1e-5, 0.0, 1.0);
  double ridge = rule == MemoryRule::kalman ? number("ridge", 0.1, 1e-6, 1e6) : 0.1;  ///< lambda
  // Settings that the user may change during training.
  double beta_factor = 1.0;  ///< on beta; 0 writes nothing
  double fade = 1.0;         ///< on the logarithm of the decay; 0 never forgets
  bool fades() const { return rule == MemoryRule::gated_deltanet || fades_by_channel(); }
  bool fades_by_channel() const { return rule == MemoryRule::kda || rule == MemoryRule::gla; }
  bool has_beta() const { return rule != MemoryRule::gla; }
  std::int64_t query_columns() const { return query_heads * keys; }
  std::int64_t key_columns() const { return key_heads * keys; }
  std::int64_t input_columns() const { return value_heads * value; }
  std::int64_t value_columns() const { return heads * value; }

 private:
  std::int64_t sharing_heads(const char* key) {
    const std::int64_t shared = integer(key, heads, 1, heads);
    if (heads % shared != 0) refuse(".", key, ": ", shared, " must divide H = ", heads, "; change one of the two");
    return shared;
  }
};

const Parameter* add_taps(const DeltaNetConfig& config, const ParameterScope& parameters, const char* name,
                          std::int64_t columns) {
  if (!config.convolves) return nullptr;
  return &parameters.add(name, {columns, 1, config.convolution}, fan_in_uniform());
}

Var mapped(Tape& tape, const Var& x, FeatureMap map) {
  constexpr Unary functions[] = {Unary::relu, Unary::elu_plus_one, Unary::sigmoid, Unary::silu};
  return map == FeatureMap::identity ? x : unary(tape, functions[static_cast<int>(map) - 1], x);
}

/// q, k, v by projection, causal convolution and SiLU; q and k of length 1 (not in gla); beta = sigmoid(b_proj x),
/// unless the configuration says otherwise; log decay g = -exp(A_log) softplus(a_proj x + dt_bias) a head
/// (gated_deltanet), -exp(A_log) softplus(f_proj x + dt_bias) a channel (kda; A_log a head) or logsigmoid(gk_proj x) /
/// 16 a channel (gla). The core is core/backend/delta.h with scale Dk^-0.5; in `kalman` it is recursive least squares,
/// S_t = argmin lambda |S|^2 + sum_s beta_s |S^T k_s - v_s|^2 (GKA eq. 3 and KF), y_t = S_t^T q_t. Then RMSNorm a head,
/// times silu(g_proj x) or its sigmoid, o_proj. Captures: `queries`, `keys`, `values` as the core takes them, `beta`,
/// `log_decay`, `readout`, `final_state` [B,H,Dk,Dv].
class DeltaNet final : public Layer {
 public:
  DeltaNet(const DeltaNetConfig& config, const ParameterScope& parameters)
      : config_(config),
        q_proj_(parameters.add("q_proj.weight", {config.query_columns(), config.width}, fan_in_uniform())),
        k_proj_(parameters.add("k_proj.weight", {config.key_columns(), config.width}, fan_in_uniform())),
        v_proj_(parameters.add("v_proj.weight", {config.input_columns(), config.width}, fan_in_uniform())),
        q_conv_(add_taps(config, parameters, "q_conv1d.weight", config.query_columns())),
        k_conv_(add_taps(config, parameters, "k_conv1d.weight", config.key_columns())),
        v_conv_(add_taps(config, parameters, "v_conv1d.weight", config.input_columns())),
        gates_(add_gates(config, parameters)),
        o_norm_(parameters.add("o_norm.weight", {config.value}, constant(1.0))),
        o_proj_(parameters.add("o_proj.weight", {config.width, config.value_columns()}, fan_in_uniform())) {}
  std::int64_t heads() const override { return config_.heads; }
  Var forward(Tape& tape, const Var& x, const Tensor&) override {
    const Inputs in = core_inputs(tape, x, nullptr);
    if (!tape.wants("final_state")) return finish(tape, in, read(tape, in, {}, {}, false));
    const std::int64_t batch = x.shape()[0];
    const Tensor state = tape.scratch({batch, config_.heads, config_.keys, config_.value}, x.value.dtype);
    const Tensor covariance = config_.rule == MemoryRule::kalman
                                  ? tape.scratch({batch, config_.heads, config_.keys, config_.keys}, x.value.dtype)
                                  : Tensor();
    const Var y = finish(tape, in, read(tape, in, state, covariance, false));
    tape.hook("final_state", state);
    return y;
  }
  /// `q_convolution`, ...: the last inputs of the convolutions.
  std::vector<StateTensor> state_parts() const override {
    const DeltaNetConfig& c = config_;
    const std::int64_t past = c.convolves ? c.convolution - 1 : 0;
    return {{"state", {c.heads, c.keys, c.value}},
            {"covariance", {c.heads, c.rule == MemoryRule::kalman ? c.keys : 0, c.keys}},
            {"q_convolution", {past, c.query_columns()}},
            {"k_convolution", {past, c.key_columns()}},
            {"v_convolution", {past, c.input_columns()}}};
  }
  // Every rule but kalman starts from zeros; its covariance starts from I / lambda.
  Var step(Tape& tape, const Var& x, LayerState& state) override {
    const bool resume = state.position > 0;
    state.position += x.shape()[1];
    const Inputs in = core_inputs(tape, x, &state);
    return finish(tape, in, read(tape, in, state.get("state"), state.find("covariance"), resume));
  }
  std::vector<LayerSetting> settings() override {
    std::vector<LayerSetting> all;
    if (config_.has_beta())
      all.push_back(
          {"beta", "β factor", "every β times this; 1: as learned, 0: nothing is written", config_.beta_factor, 0, 2});
    if (config_.fades())
      all.push_back(
          {"fade", "Forgetting", "every log decay times this; 1: as learned, 0: nothing fades", config_.fade, 0, 4});
    if (config_.rule == MemoryRule::kalman)
      all.push_back({"ridge", "Ridge λ", "weight of |S|² against the errors; the covariance starts from I/λ",
                     config_.ridge, 1e-4, 100, true});
    return all;
  }
  const DeltaNetConfig& config() const { return config_; }

 private:
  struct Gates {  // absent where the rule does not have the gate
    const Parameter *b_proj = nullptr, *a_proj = nullptr, *A_log = nullptr, *dt_bias = nullptr, *down = nullptr,
                    *up = nullptr, *gk_bias = nullptr, *g_down = nullptr, *g_proj = nullptr, *g_bias = nullptr;
  };
  // Start values as usual: A uniform in (0, 16], time steps log-uniform in [0.001, 0.1].
  static Gates add_gates(const DeltaNetConfig& config, const ParameterScope& parameters) {
    Gates gates;
    const auto matrix = [&](const char* name, std::int64_t rows, std::int64_t columns) {
      return &parameters.add(name, {rows, columns}, fan_in_uniform());
    };
    if (config.has_beta() && config.learns_beta) gates.b_proj = matrix("b_proj.weight", config.heads, config.width);
    if (config.rule == MemoryRule::gated_deltanet) {
      gates.a_proj = matrix("a_proj.weight", config.heads, config.width);
      gates.A_log = &parameters.add("A_log", {config.heads}, log_of_uniform(1e-3, 16.0));
      gates.dt_bias = &parameters.add("dt_bias", {config.heads}, time_step_bias(1e-3, 1e-1));
    }
    if (config.rule == MemoryRule::kda) {
      gates.down = matrix("f_proj.0.weight", config.gate_rank, config.width);
      gates.up = matrix("f_proj.1.weight", config.heads * config.keys, config.gate_rank);
      gates.A_log = &parameters.add("A_log", {config.heads}, log_of_uniform(1e-3, 16.0));
      gates.dt_bias = &parameters.add("dt_bias", {config.heads * config.keys}, time_step_bias(1e-3, 1e-1));
    }
    if (config.rule == MemoryRule::gla) {
      const double bound = 1.0 / std::sqrt(static_cast<double>(config.gate_rank));
      gates.down = matrix("gk_proj.0.weight", config.gate_rank, config.width);
      gates.up = matrix("gk_proj.1.weight", config.key_columns(), config.gate_rank);
      gates.gk_bias = &parameters.add("gk_proj.1.bias", {config.key_columns()}, uniform(-bound, bound));
    }
    if (config.output_gate && config.output_rank > 0) {
      gates.g_down = matrix("g_proj.0.weight", config.output_rank, config.width);
      gates.g_proj = matrix("g_proj.1.weight", config.value_columns(), config.output_rank);
      if (config.output_bias) gates.g_bias = &parameters.add("g_proj.1.bias", {config.value_columns()}, constant(0.0));
    } else if (config.output_gate) {
      gates.g_proj = matrix("g_proj.weight", config.value_columns(), config.width);
    }
    return gates;
  }
  /// Projection and convolution from the input to queries, keys or values.
  struct Stream {
    Var projected;
    const Parameter* taps;
    const char* history;
    std::int64_t heads, width;
    bool silu;
  };
  /// Projections from which the gates are made; undefined where a rule does not have the gate.
  struct GateInputs {
    Var beta, decay;
  };
  struct Inputs : DeltaVars {
    Var gate;  // of the heads' outputs; undefined without a gate
  };
  GateInputs project_gates(Tape& tape, const Var& x) const {
    const auto project = [&](const Parameter* weight) {
      return weight != nullptr ? linear(tape, x, tape.parameter(*weight)) : Var{};
    };
    if (gates_.b_proj == nullptr || gates_.a_proj == nullptr)
      return {project(gates_.b_proj), project(gates_.a_proj != nullptr ? gates_.a_proj : gates_.down)};
    Var both[2];  // small projections in one product, which reads the input once
    linear_many(tape, x, std::array{tape.parameter(*gates_.b_proj), tape.parameter(*gates_.a_proj)}, both);
    return {both[0], both[1]};
  }
  static Tensor history_of(const Stream& stream, const LayerState* state) {
    return state ? state->find(stream.history) : Tensor();
  }
  Var read_tokens(Tape& tape, const Stream& stream, const LayerState* state) const {
    Var y = stream.projected;
    if (stream.taps != nullptr) {
      const Tensor history = history_of(stream, state);
      const Var taps = tape.parameter(*stream.taps);
      y = stream.silu ? causal_conv(tape, y, taps, {}, history) : plain_causal_conv(tape, y, taps, {}, history);
    } else if (stream.silu) {
      y = unary(tape, Unary::silu, y);
    }
    return tape.reshape(y, {y.shape()[0], y.shape()[1], stream.heads, stream.width});
  }
  /// Queries or keys as the core takes them, one for each head of the memory.
  Var read_key(Tape& tape, const Stream& stream, const LayerState* state) const {
    const bool is_unit = config_.key_norm == KeyNorm::unit;
    if (is_unit && stream.taps != nullptr && stream.silu && config_.feature_map == FeatureMap::identity) {
      const Var y = unit_causal_conv(tape, stream.projected, tape.parameter(*stream.taps), stream.width, delta_unit_eps,
                                     history_of(stream, state));
      return repeat_heads(tape, y, config_.heads / stream.heads);
    }
    Var y = mapped(tape, read_tokens(tape, stream, state), config_.feature_map);
    if (is_unit) y = unit_norm(tape, y, delta_unit_eps);
    if (config_.key_norm == KeyNorm::l2) y = l2_norm(tape, y, delta_unit_eps);
    return repeat_heads(tape, y, config_.heads / stream.heads);
  }
  Var beta(Tape& tape, const Var& x, const Var& projected) const {
    Var beta = config_.learns_beta ? unary(tape, Unary::sigmoid, projected)
                                   : filled(tape, {x.shape()[0], x.shape()[1], config_.heads}, x.value.dtype, 1.0);
    const double factor = config_.beta_factor * (config_.negative_modes ? 2.0 : 1.0);
    return factor != 1.0 ? scale(tape, beta, factor) : beta;
  }
  /// Storage of queries, keys, values and gate, of which convolutions and the norm of heads take any: the scan decides.
  Storage storage(const Backend& backend, const Shape& input) const {
    const DeltaNetConfig& c = config_;
    const bool are_own = c.query_heads == c.heads && c.key_heads == c.heads && c.value_heads == c.heads;
    const bool are_convolved = c.convolves && c.key_silu && c.value_silu && c.feature_map == FeatureMap::identity;
    if (c.rule == MemoryRule::kalman || !are_own || !are_convolved || !c.output_gate || c.sigmoid_gate ||
        gates_.g_down != nullptr)
      return Storage::wide;
    if (c.key_norm == KeyNorm::l2) return Storage::wide;
    const Tensor columns(nullptr, input.with_last(c.key_columns()), DType::f32);
    if (c.key_norm == KeyNorm::unit && !backend.plan(ConvolutionCall{columns, k_conv_->value, c.keys}).unit_heads)
      return Storage::wide;
    DeltaInputs sizes;
    sizes.q.shape = sizes.k.shape = {input[0], input[1], c.heads, c.keys};
    sizes.v.shape = {input[0], input[1], c.heads, c.value};
    if (c.has_beta()) sizes.beta.shape = {input[0], input[1], c.heads};
    if (c.fades()) sizes.g.shape = c.fades_by_channel() ? sizes.k.shape : Shape{input[0], input[1], c.heads};
    return backend.plan(sizes).stored;
  }
  Inputs core_inputs(Tape& tape, const Var& x, const LayerState* state) const {
    Inputs in;
    in.scale = config_.rule == MemoryRule::kalman ? 1.0 : 1.0 / std::sqrt(static_cast<double>(config_.keys));
    const DeltaNetConfig& c = config_;
    Var weights[] = {tape.parameter(v_proj_), tape.parameter(q_proj_), tape.parameter(k_proj_), {}}, projected[4];
    const std::size_t count = c.output_gate && gates_.g_down == nullptr ? 4 : 3;
    if (count == 4) weights[3] = tape.parameter(*gates_.g_proj);
    const Storage stored = state == nullptr ? storage(tape.backend(), x.shape()) : Storage::wide;
    linear_many(tape, x, {weights, count}, {projected, count}, {}, stored);
    in.gate = projected[3];
    if (gates_.g_down != nullptr)
      in.gate = linear(tape, linear(tape, x, tape.parameter(*gates_.g_down)), tape.parameter(*gates_.g_proj),
                       gates_.g_bias != nullptr ? tape.parameter(*gates_.g_bias) : Var{});
    in.q = read_key(tape, {projected[1], q_conv_, "q_convolution", c.query_heads, c.keys, c.key_silu}, state);
    in.k = read_key(tape, {projected[2], k_conv_, "k_convolution", c.key_heads, c.keys, c.key_silu}, state);
    const Var v =
        read_tokens(tape, {projected[0], v_conv_, "v_convolution", c.value_heads, c.value, c.value_silu}, state);
    in.v = repeat_heads(tape, v, c.heads / c.value_heads);
    const GateInputs gates = project_gates(tape, x);
    if (config_.has_beta()) {
      in.beta = beta(tape, x, gates.beta);
      tape.hook("beta", in.beta);
    }
    if (config_.fades()) {
      in.g = log_gate(tape, gates.decay);
      if (config_.fade != 1.0) in.g = scale(tape, in.g, config_.fade);
      tape.hook("decay", in.g);
      tape.hook("log_decay", in.g.value);
    }
    hook_reading(tape, in.q, in.k, in.v);
    return in;
  }
  Var log_gate(Tape& tape, const Var& projected) const {
    if (config_.rule == MemoryRule::gated_deltanet)
      return log_decay(tape, projected, tape.parameter(*gates_.A_log), tape.parameter(*gates_.dt_bias));
    const std::int64_t batch = projected.shape()[0], tokens = projected.shape()[1];
    if (config_.rule == MemoryRule::kda) {
      const Var step = linear(tape, projected, tape.parameter(*gates_.up));
      return tape.reshape(log_decay(tape, step, tape.parameter(*gates_.A_log), tape.parameter(*gates_.dt_bias)),
                          {batch, tokens, config_.heads, config_.keys});
    }
    const Var gate = linear(tape, projected, tape.parameter(*gates_.up), tape.parameter(*gates_.gk_bias));
    Var logarithm = log_sigmoid(tape, gate, 1.0 / gla_temperature);
    const double least = config_.min_log_decay;
    if (config_.clamps) logarithm = shifted(tape, unary(tape, Unary::relu, shifted(tape, logarithm, -least)), least);
    const Var keys = tape.reshape(logarithm, {batch, tokens, config_.key_heads, config_.keys});
    return repeat_heads(tape, keys, config_.heads / config_.key_heads);
  }
  Var read(Tape& tape, const DeltaVars& in, const Tensor& state, const Tensor& covariance, bool resume) const {
    if (config_.rule != MemoryRule::kalman) return delta_scan(tape, in, state, resume);
    return kalman_scan(tape, {in.q, in.k, in.v, in.beta, config_.ridge}, {covariance, state}, resume);
  }
  Var finish(Tape& tape, const Inputs& in, const Var& heads) const {
    tape.hook("readout", heads);
    if (in.gate.defined()) tape.hook("gate", in.gate);
    const bool is_silu = !config_.sigmoid_gate || !in.gate.defined();
    Var y = normed_heads(tape, heads, is_silu ? in.gate : Var{}, tape.parameter(o_norm_), config_.norm_eps);
    if (!is_silu) y = multiply(tape, y, unary(tape, Unary::sigmoid, in.gate));
    return linear(tape, y, tape.parameter(o_proj_));
  }

  DeltaNetConfig config_;
  const Parameter &q_proj_, &k_proj_, &v_proj_, *q_conv_, *k_conv_, *v_conv_;
  const Gates gates_;
  const Parameter &o_norm_, &o_proj_;
};

WeightMatrix delta_weights(const CapturedLayer& layer, int head) {
  const DeltaNetConfig& config = layer.as<DeltaNet>().config();
  const std::vector<double> keys = layer.of_head("keys", head), queries = layer.of_head("queries", head);
  const std::vector<double> beta = config.has_beta() ? layer.of_head("beta", head) : std::vector<double>();
  const std::vector<double> log_decay = config.fades() ? layer.of_head("log_decay", head) : std::vector<double>();
  if (config.rule == MemoryRule::kalman) return kalman_token_weights(keys, queries, beta, config.ridge, layer.tokens);
  DeltaTokens of;
  of.tokens = layer.tokens;
  of.keys = keys;
  of.queries = queries;
  of.beta = beta;
  of.log_decay = log_decay;
  of.scale = 1.0 / std::sqrt(static_cast<double>(config.keys));
  return delta_token_weights(of);
}

/// Multiplies each row by its channel's decay over the mean decay; returns the logarithm of the mean.
double fade_channels(const std::vector<double>& log_decay, std::vector<double>& product) {
  const double mean = std::accumulate(log_decay.begin(), log_decay.end(), 0.0) / static_cast<double>(log_decay.size());
  if (log_decay.size() == 1) return mean;
  const std::size_t width = log_decay.size();
  for (std::size_t i = 0; i < product.size(); ++i) product[i] *= std::exp(log_decay[i / width] - mean);
  return mean;
}

/// Modes of the product of all (I - β k k^T) D; the mean decay is a separate factor so that long products do not
/// vanish.
std::vector<std::complex<double>> delta_modes(const CapturedLayer& layer, int head) {
  const std::vector<double> keys = layer.of_head("keys", head), beta = layer.of_head("beta", head);
  const auto tokens = static_cast<std::size_t>(layer.tokens), width = keys.size() / tokens;
  std::vector<double> product(width * width, 0.0);
  for (std::size_t i = 0; i < width; ++i) product[i * width + i] = 1;
  double decay = 0;
  const bool fades = layer.as<DeltaNet>().config().fades();
  for (std::size_t t = 0; t < tokens; ++t) {
    const double* k = keys.data() + t * width;
    if (fades) decay += fade_channels(layer.row("log_decay", static_cast<int>(t), head), product);
    std::vector<double> read(width, 0.0);
    for (std::size_t i = 0; i < width; ++i) {
      for (std::size_t j = 0; j < width; ++j) read[j] += k[i] * product[i * width + j];
    }
    for (std::size_t i = 0; i < width; ++i) {
      for (std::size_t j = 0; j < width; ++j) product[i * width + j] -= beta[t] * k[i] * read[j];
    }
  }
  std::vector<std::complex<double>> modes = eigenvalues(product, static_cast<int>(width));
  const double once = 1.0 / layer.tokens;
  for (std::complex<double>& mode : modes)
    mode = std::polar(std::pow(std::abs(mode), once) * std::exp(decay * once), std::arg(mode) * once);
  return modes;
}

/// A delta rule is the filter with fixed Σ_t = I: its β_t determines r_t (Gated KalmaNet, eqs. 17, 19, 20).
/// The recursion's β_t is η_t = 1/r_t itself (eq. 3).
PairSequence delta_pairs(const CapturedLayer& layer, int head) {
  constexpr double min_noise = 1e-3, max_noise = 1e6;  // of β_t = 1, whose r_t is 0, and of β_t = 0
  const DeltaNetConfig& config = layer.as<DeltaNet>().config();
  PairSequence of{layer.tokens, layer.of_head("keys", head), layer.of_head("queries", head),
                  layer.of_head("values", head)};
  if (config.fades()) of.log_decay = layer.of_head("log_decay", head);
  if (config.rule == MemoryRule::kalman) of.ridge = config.ridge;
  const std::size_t gates = of.log_decay.size() / static_cast<std::size_t>(layer.tokens);
  std::size_t t = 0;
  for (const double beta : layer.of_head("beta", head)) {
    double variance = 1;  // of the prediction along the key
    for (std::size_t i = 0; i < gates; ++i)
      variance += std::exp(2 * of.log_decay[t * gates + i]) / static_cast<double>(gates);
    const double noise = config.rule == MemoryRule::kalman ? 1 / beta : variance * (1 / beta - 1);
    of.noise.push_back(std::clamp(noise, min_noise, max_noise));
    ++t;
  }
  return of;
}

/// The parts of the descriptor that the five rules share.
template <MemoryRule rule>
LayerKind kind_of(const char* description, const char* source, std::vector<LayerBenchmark> benchmarks) {
  LayerKind kind{.name = name_of(rule), .description = description, .source = source};
  kind.benchmarks = std::move(benchmarks);
  kind.make = [](const nlohmann::json& config, const ParameterScope& parameters) -> std::unique_ptr<Layer> {
    return std::make_unique<DeltaNet>(DeltaNetConfig(rule, config), parameters);
  };
  kind.small_config = [](const SmallSizes& s) -> nlohmann::json { return {{"d", s.width}, {"H", s.heads}}; };
  kind.readers.token_weights = delta_weights;
  kind.ink = rule == MemoryRule::kalman ? 3 : 5;
  if (rule != MemoryRule::gla) kind.readers.pairs = delta_pairs;
  if (rule != MemoryRule::kalman) kind.readers.state_modes = rule == MemoryRule::gla ? modes_of_log_decay : delta_modes;
  if (rule != MemoryRule::kalman && rule != MemoryRule::deltanet) kind.readers.gates = gates_of_log_decay;
  return kind;
}

constexpr LayerBenchmark long_benchmark{R"({"d":448,"H":7})", 8, 2048}, short_benchmark{R"({"d":128,"H":4})", 16, 64},
    eight_heads{R"({"d":1024,"H":8})", 4, 8192, "8 heads x 128"};  // Gated KalmaNet, figure 3b

}  // namespace

LayerKind deltanet_kind() {
  LayerKind kind =
      kind_of<MemoryRule::deltanet>("DeltaNet: writes the difference between a value and what its key reads",
                                    "flash-linear-attention DeltaNet", {long_benchmark, eight_heads});
  kind.race_place = 5;
  return kind;
}

LayerKind gated_deltanet_kind() {
  return kind_of<MemoryRule::gated_deltanet>("gated DeltaNet: the delta rule on a memory that fades",
                                             "flash-linear-attention GatedDeltaNet",
                                             {long_benchmark, short_benchmark, eight_heads});
}

LayerKind kda_kind() {
  return kind_of<MemoryRule::kda>("Kimi Delta Attention: the delta rule on a memory whose channels fade apart",
                                  "flash-linear-attention KimiDeltaAttention", {long_benchmark});
}

LayerKind gla_kind() {
  return kind_of<MemoryRule::gla>("gated linear attention: a sum of v k^T whose channels fade at their own pace",
                                  "flash-linear-attention GatedLinearAttention", {long_benchmark, eight_heads});
}

LayerKind kalman_kind() {
  return kind_of<MemoryRule::kalman>("exact recursive least squares, token by token: what the delta rules approximate",
                                     "Gated KalmaNet, eq. 3", {short_benchmark});
}

}  // namespace afterglow
