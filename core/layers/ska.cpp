// Spectral Koopman Attention: projections around the SKA core.
#include "core/layers/ska.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/analysis/influence/state_slopes.h"
#include "core/io/json_file.h"
#include "core/io/named.h"
#include "core/layers/captured_layer.h"
#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"

namespace afterglow {
namespace {

constexpr double min_key_norm = 1e-6;  // Echo 3.2.1
constexpr double tiny_key = 1e-30;     // in the place of a length of zero

/// Hooks the statistics under the names of tests/golden/README.md; a single group gets no axis.
void hook_statistics(Tape& tape, const RidgeSaved& saved, bool several_groups) {
  const std::pair<const char*, Tensor> entries[] = {{"G", saved.G},         {"M", saved.M},          {"L", saved.L},
                                                    {"A_w", saved.A_w},     {"Cv", saved.C},         {"m", saved.m},
                                                    {"sigma", saved.sigma}, {"jitter", saved.jitter}};
  for (const auto& [name, tensor] : entries) {
    const Shape& s = tensor.shape;
    const Shape of_one = s.rank() == 5 ? Shape{s[0], s[1], s[3], s[4]} : Shape{s[0], s[1]};
    tape.hook(name, several_groups ? tensor : tensor.reshaped(of_one));
  }
}

const std::vector<std::string> modes = {"prefix", "masked", "chunk", "recurrent"};  // as RidgeConfig::Mode

/// The norm scopes that a mode allows, its default first.
std::vector<std::string> norm_scopes(const std::string& mode) {
  if (mode == "chunk") return {"sequence", "prefix", "token", "clip"};
  return {mode == "prefix" ? "sequence" : mode == "masked" ? "masked" : "running", "token", "clip"};
}

/// Which positions masked mode counts, as bits of RidgeConfig::roles: of filler (0), facts (1) and questions (2).
constexpr std::pair<const char*, std::uint8_t> masks[] = {
    {"facts", 0b010}, {"context", 0b011}, {"facts + question", 0b110}};

const std::vector<std::string> write_gates = {"none", "sqrt", "linear", "key_linear", "value_linear", "asymmetric"};
constexpr SkaConfig::WriteGate write_powers[] = {{}, {0.5, 0.5}, {1, 1}, {1, 0.5}, {0.5, 1}, {1, 1, true}};

}  // namespace

/// The bounds [low, high] that a field holds.
std::optional<Bounds> SkaConfig::bounds(const char* range) {
  const nlohmann::json* field = find(range);
  if (field == nullptr) return std::nullopt;
  const auto& pair = *field;
  const bool is_pair = pair.is_array() && pair.size() == 2 && pair[0].is_number() && pair[1].is_number();
  const Bounds bounds = is_pair ? Bounds{pair[0].get<double>(), pair[1].get<double>()} : Bounds{1, 0};
  if (!(bounds.low <= bounds.high) || !std::isfinite(bounds.low) || !std::isfinite(bounds.high))
    refuse(": ", range, " must be two numbers, [low, high], the smaller one first");
  return bounds;
}

/// The fields `mask` and `values`, which some modes do not have.
void SkaConfig::read_mask(const std::string& mode) {
  const std::vector<std::string> names = names_of(masks, &std::pair<const char*, std::uint8_t>::first);
  if (has("mask") && mode != "masked")
    refuse(R"(: mask is a field of mode "masked", and this layer has mode ")", mode, '"');
  if (const nlohmann::json* weights = find("mask"); weights != nullptr && weights->is_array()) {
    const auto is_weight = [](const nlohmann::json& one) { return one.is_number() && one >= 0.0 && one <= 1.0; };
    if (weights->size() != 3 || !std::ranges::all_of(*weights, is_weight))
      refuse(": a soft mask is three weights from 0 to 1: of filler, facts and questions");
    soft_mask = weights->get<std::array<double, 3>>();
  } else {
    const std::string mask = word("mask", names, "facts");
    core.roles = masks[std::ranges::find(names, mask) - names.begin()].second;
  }
  lags_values = word("values", {"own", "lagged"}, "own") == "lagged";
  if (lags_values && mode == "recurrent")
    refuse(R"(: lagged values need mode "prefix", "masked" or "chunk"; chunk 1 is the causal sum up to each token)");
}

SkaConfig::SkaConfig(const nlohmann::json& config) : JsonFields(config, "ska") {
  core.power = static_cast<int>(integer("K", 2, 0, 64));
  core.ridge = number("ridge", 1e-3, 0.0, 1e6);
  core.chunk = static_cast<int>(integer("chunk", 64, 1, 1 << 20));
  core.power_iterations = static_cast<int>(integer("power_iters", 6, 0, 1000));
  core.mode = choice("mode", modes, RidgeConfig::Mode::prefix);
  const std::string& mode = modes[static_cast<std::size_t>(core.mode)];
  read_mask(mode);
  const std::vector<std::string> scopes = norm_scopes(mode);
  const bool has_clip = has("clip");
  has("norm_scope");
  const std::string scope = get_choice(config, "norm_scope", scopes, scopes.front(), "ska, mode " + mode);
  norms_tokens = scope == "token";
  if (scope == "clip") {
    clip = number("clip", std::sqrt(static_cast<double>(rank)), 1e-6, 1e6);
  } else if (has_clip) {
    refuse(R"(: clip is the length of norm_scope "clip", and this layer has norm_scope ")", scope, '"');
  }
  const std::string gate = word("write_gate", write_gates, "none");
  if (gate != "none") write_gate = write_powers[std::ranges::find(write_gates, gate) - write_gates.begin()];
  const std::optional<Bounds> gamma_range = bounds("gamma_range");
  if (gamma_range) core.gamma = *gamma_range;
  if (has("gamma")) first_gamma = number("gamma", 1.0, core.gamma.low, core.gamma.high);
  eta_range = bounds("eta_range");
  refuse_others();
  // Keys of length 1 alone have the m of their own lengths, 1 up to rounding: older runs keep their bits.
  const bool has_options = write_gate || has_read_gate || has_layer_scale || gamma_range || eta_range;
  has_unit_scale = clip > 0 || (norms_tokens && has_options);
  // The longest key of a prefix of keys of length 1 is that of the sequence, so no future token is needed.
  const bool is_prefix = scope == "prefix" || (norms_tokens && !has_unit_scale);
  core.norm = is_prefix ? RidgeConfig::Norm::prefix : RidgeConfig::Norm::sequence;
}

Ska::Ska(const SkaConfig& config, const ParameterScope& parameters)
    : config_(config),
      k_proj_(parameters.add("k_proj.weight", {config.heads * config.projected(), config.width}, orthogonal())),
      q_proj_(parameters.add("q_proj.weight", {config.heads * config.projected(), config.width}, orthogonal())),
      v_proj_(parameters.add("v_proj.weight", {config.heads * config.value_width, config.width}, fan_in_uniform())),
      o_proj_(parameters.add("o_proj.weight", {config.width, config.heads * config.value_width},
                             config.has_layer_scale ? normal(0.02) : zeros())),
      eta_(config.eta_range
               ? parameters.add("eta_raw", {config.heads}, constant(config.eta_range->raw(config.first_eta)))
               : parameters.add("eta", {config.heads}, constant(config.first_eta))),
      gamma_raw_(parameters.add("gamma_raw", {config.heads},
                                config.first_gamma ? constant(config.core.gamma.raw(*config.first_gamma)) : zeros())) {
  if (config.is_gated) gate_proj_ = &parameters.add("gate_proj.weight", {config.heads, config.width}, fan_in_uniform());
  if (config.write_gate) {
    beta_weight_ = &parameters.add("beta_proj.weight", {config.heads, config.width}, zeros());
    beta_bias_ = &parameters.add("beta_proj.bias", {config.heads}, zeros());
  }
  if (config.has_read_gate) {
    lambda_weight_ = &parameters.add("lambda_proj.weight", {config.heads, config.rank}, zeros());
    lambda_weight_->decay = false;
    lambda_bias_ = &parameters.add("lambda_proj.bias", {config.heads}, constant(Bounds{}.raw(0.9)));
  }
  if (config.value_taps > 0) {
    const Shape taps{config.heads * config.value_width, 1, config.value_taps};
    value_conv_ = &parameters.add("v_conv.weight", taps, fan_in_uniform());
  }
  if (config.has_layer_scale) layer_scale_ = &parameters.add("layer_scale", {config.width}, constant(1e-2));
}

Plan Ska::plan(const Backend& backend, const Shape& input) const {
  RidgeInputs sizes;
  sizes.z.shape = {input[0], input[1], config_.heads, config_.rank};
  sizes.v.shape = {input[0], input[1], config_.heads, config_.value_width};
  return backend.plan(config_.core, sizes);
}

Storage Ska::storage(const Backend& backend, const Shape& input) const {
  const bool changes_values = config_.lags_values || config_.value_taps > 0;
  if (config_.changes_keys() || config_.is_gated || config_.has_read_gate || changes_values) return Storage::wide;
  return plan(backend, input).stored;
}

RidgeVars Ska::project(Tape& tape, const Var& x, Storage stored, const Tensor& history) const {
  const Var weights[] = {tape.parameter(k_proj_), tape.parameter(q_proj_), tape.parameter(v_proj_)};
  Var flat[3];
  linear_many(tape, x, weights, flat, {}, stored);
  if (value_conv_) flat[2] = plain_causal_conv(tape, flat[2], tape.parameter(*value_conv_), {}, history);
  const auto heads = [&](const Var& map, std::int64_t width) {
    if (map.value.dtype == DType::bf16) return map;  // the kernel reads its strided rows without a copy
    return tape.reshape(map, {x.shape()[0], x.shape()[1], config_.heads, width});
  };
  RidgeVars vars;
  vars.z = heads(flat[0], config_.projected());
  vars.q = heads(flat[1], config_.projected());
  for (Var* keys : {&vars.z, &vars.q})
    if (config_.lifts_keys) *keys = pair_squares(tape, *keys, {.invariant = true});
  vars.v = heads(flat[2], config_.value_width);
  weight(tape, x, vars);
  vars.eta = tape.parameter(eta_);
  if (config_.eta_range) {
    const auto [low, high] = *config_.eta_range;
    vars.eta = shifted(tape, scale(tape, unary(tape, Unary::sigmoid, vars.eta), high - low), low);
  }
  vars.gamma_raw = tape.parameter(gamma_raw_);
  hook_reading(tape, vars.q, vars.z, vars.v);
  if (tape.wants("gamma")) {
    std::vector<double> gamma = to_host(tape, vars.gamma_raw);
    for (double& one : gamma) one = config_.core.gamma.at(one);
    tape.hook("gamma", to_device(tape, gamma_raw_.shape, vars.gamma_raw.value.dtype, gamma));
  }
  return vars;
}

namespace {

/// |x| over the last axis, given x / |x|: [B,T,H,r] -> [B,T,H].
Var lengths(Tape& tape, const Var& x, const Var& unit) {
  const Shape& s = x.shape();
  return tape.reshape(row_products(tape, x, unit), {s[0], s[1], s[2]});
}

/// Row t is row t + 1 of x [B,T,H,P], the last is zero: with it C = sum v_{t+1} z_t^T.
Var next_tokens(Tape& tape, const Var& x) {
  const Shape& s = x.shape();
  const std::int64_t row = s[2] * s[3];
  const Var zeros = filled(tape, {s[0], row}, x.value.dtype, 0.0);
  if (s[1] == 1) return tape.reshape(zeros, s);
  Var parts[2];
  tape.split_columns(tape.reshape(x, {s[0], s[1] * row}), std::array{row, (s[1] - 1) * row}, parts);
  return tape.reshape(join_columns(tape, std::array{parts[1], zeros}), s);
}

/// x / max(1, |x| / c) over the last axis: the unit vector times the smaller of |x| and c.
Var clipped(Tape& tape, const Var& x, double c) {
  const Var unit = unit_norm(tape, x, tiny_key), length = lengths(tape, x, unit);
  const Var excess = unary(tape, Unary::relu, shifted(tape, length, -c));
  return multiply_rows(tape, unit, add(tape, length, scale(tape, excess, -1)), 0.0);
}

}  // namespace

void Ska::weight(Tape& tape, const Var& x, RidgeVars& vars) const {
  if (config_.norms_tokens) {
    vars.z = unit_norm(tape, vars.z, min_key_norm);
    vars.q = unit_norm(tape, vars.q, min_key_norm);
  } else if (config_.clip > 0) {
    vars.z = clipped(tape, vars.z, config_.clip);
    vars.q = clipped(tape, vars.q, config_.clip);
  }
  if (config_.has_unit_scale) {
    vars.length = filled(tape, {x.shape()[0], x.shape()[1], config_.heads}, vars.z.value.dtype, 1.0);
  } else if (beta_weight_ || lambda_weight_) {
    vars.length = lengths(tape, vars.z, unit_norm(tape, vars.z, tiny_key));
  }
  if (!beta_weight_) return;
  const Var logits = linear(tape, x, tape.parameter(*beta_weight_), tape.parameter(*beta_bias_));
  const auto beta = [&](double power) { return unary(tape, Unary::exp, log_sigmoid(tape, logits, power)); };
  if (tape.wants("beta")) tape.hook("beta", beta(1).value);
  const auto [key, value, asymmetric] = *config_.write_gate;
  (asymmetric ? vars.left : vars.z) = multiply_rows(tape, vars.z, beta(key), 0.0);
  vars.v = multiply_rows(tape, vars.v, beta(value), 0.0);
}

double Ska::sum_weight(const SumWeights& painted, int token, std::uint8_t role) const {
  const RidgeConfig& core = config_.core;
  const bool counts = core.mode != RidgeConfig::Mode::masked || (core.roles >> role & 1) != 0;
  return painted.at(token, role).value_or(config_.soft_mask ? (*config_.soft_mask)[role] : counts ? 1.0 : 0.0);
}

Tensor Ska::painted_roots(Tape& tape, const SumWeights& painted, const Tensor& mask, DType dtype) const {
  std::vector<std::uint8_t> roles(static_cast<std::size_t>(mask.elements()));
  tape.backend().download(roles.data(), mask);
  std::vector<double> roots;
  for (std::size_t i = 0; i < roles.size(); ++i) {
    const int token = static_cast<int>(i % static_cast<std::size_t>(mask.shape[1]));
    const double root = std::sqrt(sum_weight(painted, token, roles[i]));
    roots.insert(roots.end(), static_cast<std::size_t>(config_.heads), root);
  }
  return to_device(tape, {mask.shape[0], mask.shape[1], config_.heads}, dtype, roots);
}

// On the device, because a training step reads nothing back: a role's byte becomes the low byte of its number, which
// names a row of the roots.
Tensor Ska::soft_roots(Tape& tape, const Tensor& mask, DType dtype) const {
  Backend& backend = tape.backend();
  const Tensor roles = tape.scratch(mask.shape, DType::i32), rows = tape.scratch({3, config_.heads}, dtype),
               roots = tape.scratch({mask.shape[0], mask.shape[1], config_.heads}, dtype);
  Tensor low_bytes(roles.data, {mask.elements(), 1}, DType::u8);
  low_bytes.row_stride = static_cast<std::int64_t>(sizeof(std::int32_t));
  backend.fill(roles, 0.0);
  backend.copy(low_bytes, mask.reshaped(low_bytes.shape));
  for (std::int64_t role = 0; role < 3; ++role)
    backend.fill(rows.at(role), std::sqrt((*config_.soft_mask)[static_cast<std::size_t>(role)]));
  backend.gather_rows(roles, rows, {}, roots);
  return roots;
}

void Ska::weigh(Tape& tape, const Tensor& roots, RidgeConfig& core, RidgeVars& vars) const {
  const Var root = tape.constant(roots);
  tape.hook("root_weights", roots);
  for (Var* rows : {&vars.z, &vars.left, &vars.v}) {
    if (rows->defined()) *rows = multiply_rows(tape, *rows, root, 0.0);
  }
  if (vars.length.defined() && !config_.has_unit_scale) vars.length = multiply(tape, vars.length, root);
  if (core.mode == RidgeConfig::Mode::masked) core.mode = RidgeConfig::Mode::prefix;
}

template <class Answer>
Var Ska::read(Tape& tape, const RidgeConfig& core, const RidgeVars& vars, RidgeSaved& saved,
              const Answer& answer) const {
  if (!lambda_weight_) return answer(core);
  RidgeConfig unfiltered = core;
  unfiltered.power = 0;
  const Var plain = answer(unfiltered), filtered = answer(core);
  const Shape& s = vars.q.shape();
  const Var weight = tape.reshape(tape.parameter(*lambda_weight_), {s[2] * s[3]});
  const Var rows = add_bias(tape, filled(tape, {s[0], s[1], s[2] * s[3]}, vars.q.value.dtype, 0.0), weight);
  Var logits = tape.reshape(row_products(tape, vars.q, tape.reshape(rows, s)), {s[0], s[1], s[2]});
  if (!config_.has_unit_scale)  // the gate sees q / m
    logits = multiply(tape, logits, ridge_scales(tape, core, vars.length, saved));
  logits = scale(tape, logits, 1 / std::sqrt(static_cast<double>(config_.rank)));
  const Var lambda = unary(tape, Unary::sigmoid, add_bias(tape, logits, tape.parameter(*lambda_bias_)));
  tape.hook("lambda", lambda.value);
  return add(tape, multiply_rows(tape, plain, scale(tape, lambda, -1), 1.0),
             multiply_rows(tape, filtered, lambda, 0.0));
}

bool Ska::is_causal() const {
  using Mode = RidgeConfig::Mode;
  const RidgeConfig& core = config_.core;
  const bool is_known = core.norm == RidgeConfig::Norm::prefix || config_.has_unit_scale;
  return core.mode == Mode::recurrent || (core.mode == Mode::chunk && is_known);
}

bool Ska::reads_later_tokens() const {
  return config_.core.mode == RidgeConfig::Mode::prefix || config_.core.mode == RidgeConfig::Mode::masked;
}

Var Ska::join_heads(Tape& tape, const Var& heads, const Var& x) const {
  const Shape& s = heads.shape();
  Var joined = heads, projection = tape.parameter(o_proj_);
  if (gate_proj_) {
    const Var gate = unary(tape, Unary::sigmoid, linear(tape, x, tape.parameter(*gate_proj_)));
    tape.hook("gate", gate.value);
    joined = multiply_rows(tape, heads, gate, 0.0);
  }
  if (layer_scale_) projection = multiply_rows(tape, projection, tape.parameter(*layer_scale_), 0.0);
  return linear(tape, tape.reshape(joined, {s[0], s[1], s[2] * s[3]}), projection);
}

Var Ska::forward(Tape& tape, const Var& x, const Tensor& mask) {
  return answer(tape, x, mask, project(tape, x, storage(tape.backend(), x.shape())), config_.core);
}

Var Ska::prefill(Tape& tape, const Var& x, const Tensor& mask, LayerState& state) {
  const RidgeVars vars = project(tape, x, Storage::wide, state.find("history"));
  remember(tape, vars, state);
  return answer(tape, x, mask, vars, config_.core);
}

// In prefix mode the sums of all tokens are one group.
void Ska::remember(Tape& tape, RidgeVars vars, LayerState& state) const {
  const std::int64_t batch = vars.z.shape()[0], tokens = vars.z.shape()[1], columns = config_.heads * config_.rank;
  state.position += tokens;
  if (config_.lags_values) vars.v = next_tokens(tape, vars.v);
  RidgeConfig core = config_.core;
  core.mode = RidgeConfig::Mode::prefix;
  core.norm = RidgeConfig::Norm::sequence;
  RidgeSaved saved;
  ridge_readout(tape, core, vars, &saved);
  const std::pair<const char*, Tensor> sums[] = {{"G", saved.G}, {"M", saved.M}, {"C", saved.C}, {"m", saved.m}};
  for (const auto& [name, sum] : sums) {
    const Tensor kept = state.get(name);
    tape.backend().copy(kept, sum.reshaped(kept.shape));
  }
  const Var each = filled(tape, {batch, tokens, config_.heads}, vars.z.value.dtype, 1.0);
  const Var keys = multiply_rows(tape, vars.z, ridge_scales(tape, core, each, saved), 0.0);
  tape.backend().copy(state.get("previous_key").reshaped({batch, columns}),
                      last_token(keys.value.reshaped({batch, tokens, columns})));
}

Var Ska::answer(Tape& tape, const Var& x, const Tensor& mask, RidgeVars vars, RidgeConfig core,
                const LayerEdit* edit) const {
  if (config_.lags_values) vars.v = next_tokens(tape, vars.v);
  const DType dtype = vars.z.value.dtype;
  if (edit != nullptr && (!edit->weights.empty() || config_.soft_mask))
    weigh(tape, painted_roots(tape, edit->weights, mask, dtype), core, vars);
  else if (config_.soft_mask && mask.defined())
    weigh(tape, soft_roots(tape, mask, dtype), core, vars);
  if (core.mode == RidgeConfig::Mode::masked) vars.mask = mask;
  RidgeSaved saved;
  const Var heads = read(tape, core, vars, saved, [&](const RidgeConfig& one) {
    const Var answers = ridge_readout(tape, one, vars, &saved);
    return edit != nullptr ? answer_edited(tape, one, vars, saved, answers, *edit) : answers;
  });
  tape.hook("readout", heads);
  hook_statistics(tape, saved, core.mode == RidgeConfig::Mode::chunk || core.mode == RidgeConfig::Mode::recurrent);
  return join_heads(tape, heads, x);
}

Var Ska::forward_as_stepped(Tape& tape, const Var& x) {
  if (config_.excludes_itself()) return forward(tape, x, {});
  RidgeConfig core = config_.core;
  core.mode = RidgeConfig::Mode::recurrent;
  return answer(tape, x, {}, project(tape, x), core);
}

std::vector<StateSlope> Ska::state_slopes(Tape& tape, const HookedVars& hooked) const {
  // RidgeRun knows m and sums of keys alone, each token with its own value and among those that it reads.
  const bool is_other = config_.excludes_itself() || config_.lags_values || config_.value_taps > 0;
  if (beta_weight_ || lambda_weight_ || config_.has_unit_scale || is_other) return {};
  const std::vector<double> keys = to_host(tape, hooked.at("keys")), queries = to_host(tape, hooked.at("queries")),
                            values = to_host(tape, hooked.at("values")),
                            readout_slope = gradient_to_host(tape, hooked.at("readout"));
  const auto heads = static_cast<std::size_t>(config_.heads), rank = static_cast<std::size_t>(config_.rank),
             tokens = keys.size() / (heads * rank);
  std::vector<StateSlope> slopes{{"G", {}}, {"M", {}}, {"C", {}}, {"previous_key", {}}, {"m", {}}};
  for (std::size_t h = 0; h < heads; ++h) {
    RidgeRun run;
    run.head = ska_readers().head(*this, tape.backend(), static_cast<int>(h));
    run.keys = part_of_rows(keys, tokens, h, heads);
    run.queries = part_of_rows(queries, tokens, h, heads);
    run.values = part_of_rows(values, tokens, h, heads);
    run.readout_slope = part_of_rows(readout_slope, tokens, h, heads);
    const auto own = ridge_slopes(run);
    for (std::size_t i = 0; i < slopes.size(); ++i) put_part_of_rows(slopes[i].values, own[i], tokens, h, heads);
  }
  return slopes;
}

Var Ska::forward_edited(Tape& tape, const Var& x, const Tensor& mask, const LayerEdit& edit) {
  RidgeConfig core = config_.core;
  core.power = edit.power.value_or(core.power);
  core.ridge = edit.ridge.value_or(core.ridge);
  return answer(tape, x, mask, project(tape, x), core, &edit);
}

// On the host: y = (eta / m) E q with E = C L^-T W L^-1. Where a mode cannot be separated from the others (a defective
// operator) the kernel's result stays.
Var Ska::answer_edited(Tape& tape, const RidgeConfig& core, const RidgeVars& vars, const RidgeSaved& saved,
                       const Var& answers, const LayerEdit& edit) const {
  // Of a read gate's unfiltered part, which no eigenvalue enters, a head is off or not, and eta is as edited.
  const bool is_unfiltered = lambda_weight_ != nullptr && core.power == 0;
  const bool is_captured = tape.wants("operator") && !is_unfiltered;
  const bool is_plain =
      std::all_of(edit.heads.begin(), edit.heads.end(), [](const HeadEdit& head) { return head.is_plain(); });
  if (is_plain && !is_captured) return answers;
  const auto host = [&](const Tensor& tensor) { return to_host(tape.backend(), tensor); };
  const std::vector<double> L = host(saved.L), A_w = host(saved.A_w), C = host(saved.C), m = host(saved.m),
                            sigma = host(saved.sigma), q = host(vars.q.value), eta = host(vars.eta.value),
                            gamma_raw = host(vars.gamma_raw.value);
  const auto rank = static_cast<std::size_t>(config_.rank), width = static_cast<std::size_t>(config_.value_width),
             count = static_cast<std::size_t>(config_.heads), square = rank * rank,
             tokens = static_cast<std::size_t>(answers.shape()[1]),
             groups = m.size() / eta.size() / static_cast<std::size_t>(answers.shape()[0]);
  const std::size_t piece =
      core.mode == RidgeConfig::Mode::chunk ? static_cast<std::size_t>(core.chunk) : tokens / groups;
  std::vector<double> y = host(answers.value), operators(L.size(), 0.0);
  for (std::size_t i = 0; i < m.size(); ++i) {
    const std::size_t b = i / (count * groups), head = i / groups % count, g = i % groups;
    const auto entry = [&](const std::vector<double>& all, std::size_t size) {
      return std::span(all).subspan(i * size, size);
    };
    HeadEdit own = edit.heads.empty() ? HeadEdit{} : edit.heads[head];
    if (is_unfiltered) own.modes.clear();
    if (own.is_plain() && !is_captured) continue;
    std::vector<double> filter(square, 0.0);
    const double gamma = own.gamma.value_or(core.gamma.at(gamma_raw[head]));
    if (!own.is_off)
      filter = edited_power(entry(A_w, square), static_cast<int>(rank), gamma / std::max(sigma[i], 1.0), core.power,
                            own.modes, own.numbered);
    if (filter.empty()) continue;
    std::ranges::copy(filter, operators.begin() + static_cast<std::ptrdiff_t>(i * square));
    if (own.is_plain()) continue;
    const std::vector<double> E = edited_readout(entry(C, width * rank), entry(L, square), filter,
                                                 static_cast<int>(rank), static_cast<int>(width));
    for (std::size_t t = g * piece; t < std::min(tokens, (g + 1) * piece); ++t) {
      const std::size_t row = (b * tokens + t) * count + head;
      for (std::size_t p = 0; p < width; ++p) {
        const double* of_value = E.data() + p * rank;
        y[row * width + p] = own.eta.value_or(eta[head]) / m[i] *
                             std::inner_product(of_value, of_value + rank, q.data() + row * rank, 0.0);
      }
    }
  }
  if (is_captured) tape.hook("operator", to_device(tape, saved.A_w.shape, saved.A_w.dtype, operators));
  return is_plain ? answers : tape.constant(to_device(tape, answers.shape(), answers.value.dtype, y));
}

std::vector<StateTensor> Ska::state_parts() const {
  const std::int64_t H = config_.heads, r = config_.rank, P = config_.value_width;
  return {{"G", {H, r, r}}, {"M", {H, r, r}},
          {"C", {H, P, r}}, {"previous_key", {H, r}},
          {"m", {H}},       {"history", {std::max(config_.value_taps - 1, std::int64_t{0}), H * P}}};
}

Var Ska::step(Tape& tape, const Var& x, LayerState& state) {
  ++state.position;
  RidgeVars vars = project(tape, x, Storage::wide, state.find("history"));
  // m grows only with lengths that are larger, and is 0 before the first token.
  if (state.keeps_scale && state.position > 1 && !config_.has_unit_scale)
    vars.length = filled(tape, {x.shape()[0], 1, config_.heads}, vars.z.value.dtype, 0.0);
  const std::int64_t factors = plan(tape.backend(), x.shape()).kept * vars.eta.value.elements() * x.shape()[0];
  const RidgeState sums{state.get("G"), state.get("M"),        state.get("C"), state.get("previous_key"),
                        state.get("m"), state.derived(factors)};
  const auto write = [&] {
    ridge_write_key(tape, vars, sums);
    if (!config_.lags_values) ridge_write_value(tape, vars, sums);
  };
  if (config_.lags_values) ridge_write_value(tape, vars, sums);
  if (!config_.excludes_itself())
    write();
  else if (state.position == 1)
    tape.backend().fill(sums.m, min_key_norm);
  RidgeSaved saved;
  const Var heads = read(tape, config_.core, vars, saved,
                         [&](const RidgeConfig& one) { return ridge_answer(tape, one, vars, sums, &saved); });
  for (Tensor* sum : {&saved.G, &saved.M, &saved.C, &saved.m}) {
    if (config_.excludes_itself()) *sum = gathered(tape, *sum);  // the token enters them after its answer
  }
  hook_statistics(tape, saved, false);
  tape.hook("readout", heads);
  if (config_.excludes_itself()) write();
  return join_heads(tape, heads, x);
}

std::vector<LayerSetting> Ska::settings() {
  return {{"K", "Power K (training)", "how often the fitted operator acts on a query; 0 is ridge regression",
           config_.core.power, 0, 8},
          {"ridge", "ridge ε (training)", "what is added to the diagonal of the Gram matrix", config_.core.ridge, 1e-6,
           1, true}};
}

LayerKind ska_kind() {
  return {.name = "ska",
          .description =
              "Spectral Koopman Attention: ridge regression of the context, read through a power of its operator",
          .source = "Echo 3.2",
          .make = make_read<Ska, SkaConfig>,
          .small_config = [](const SmallSizes& s) -> nlohmann::json {
            return {{"d", s.width},      {"H", s.heads}, {"r", s.head_width},
                    {"P", s.head_width}, {"K", 2},       {"mode", "recurrent"}};
          },
          .ink = 0,
          .race_place = 1,
          .readers = ska_readers(),
          .shows = LayerTrait::koopman_heads,
          .benchmarks = {{R"({"d":128,"H":4,"r":24,"P":32,"K":2,"mode":"prefix"})", 16, 128, "prefix"},
                         {R"({"d":448,"H":7,"r":56,"P":64,"K":2,"mode":"chunk","chunk":64})", 8, 2048, "chunk"}}};
}

}  // namespace afterglow
