// Spectral Koopman Attention: projections around the SKA core.
#include "core/layers/ska.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/analysis/influence/state_slopes.h"
#include "core/io/json_file.h"
#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"

namespace afterglow {

namespace {

constexpr double min_key_norm = 1e-6;  // Echo 3.2.1

/// Hooks the statistics under the names of tests/golden/README.md; a single group gets no axis.
void hook_statistics(Tape& tape, const RidgeSaved& saved, bool several_groups) {
  const std::pair<const char*, Tensor> entries[] = {{"G", saved.G},         {"M", saved.M},          {"L", saved.L},
                                                    {"A_w", saved.A_w},     {"Cv", saved.C},         {"m", saved.m},
                                                    {"sigma", saved.sigma}, {"jitter", saved.jitter}};
  for (const auto& [name, tensor] : entries) {
    const Shape& s = tensor.shape;
    if (several_groups) {
      tape.hook(name, tensor);
    } else if (s.rank() == 5) {
      tape.hook(name, tensor.reshaped({s[0], s[1], s[3], s[4]}));
    } else {
      tape.hook(name, tensor.reshaped({s[0], s[1]}));
    }
  }
}

RidgeConfig::Mode mode_of(const std::string& name) {
  if (name == "masked") return RidgeConfig::Mode::masked;
  if (name == "chunk") return RidgeConfig::Mode::chunk;
  if (name == "recurrent") return RidgeConfig::Mode::recurrent;
  return RidgeConfig::Mode::prefix;
}

/// The norm scopes that a mode allows, its default first.
std::vector<std::string> norm_scopes(const std::string& mode) {
  if (mode == "chunk") return {"sequence", "prefix", "token"};
  return {mode == "prefix" ? "sequence" : mode == "masked" ? "masked" : "running", "token"};
}

SkaConfig read_config(const nlohmann::json& config) {
  refuse_unknown_keys(
      config, {"d", "H", "r", "P", "K", "ridge", "mode", "chunk", "power_iters", "norm_scope", "eta", "gate"}, "ska");
  SkaConfig c;
  c.width = get_integer(config, "d", std::nullopt, 1, 65536, "ska");
  c.heads = get_integer(config, "H", std::nullopt, 1, 4096, "ska");
  c.rank = get_integer(config, "r", std::nullopt, 1, 4096, "ska");
  c.value_width = get_integer(config, "P", std::nullopt, 1, 65536, "ska");
  c.first_eta = get_number(config, "eta", 1.5, -1e6, 1e6, "ska");
  c.core.power = static_cast<int>(get_integer(config, "K", 2, 0, 64, "ska"));
  c.core.ridge = get_number(config, "ridge", 1e-3, 0.0, 1e6, "ska");
  c.core.chunk = static_cast<int>(get_integer(config, "chunk", 64, 1, 1 << 20, "ska"));
  c.core.power_iterations = static_cast<int>(get_integer(config, "power_iters", 6, 0, 1000, "ska"));
  const std::string mode = get_choice(config, "mode", {"prefix", "masked", "chunk", "recurrent"}, "prefix", "ska");
  c.core.mode = mode_of(mode);
  const std::vector<std::string> scopes = norm_scopes(mode);
  const std::string scope = get_choice(config, "norm_scope", scopes, scopes.front(), "ska, mode " + mode);
  // The longest key of a prefix of keys of length 1 is that of the sequence, so no future token is needed.
  c.norms_tokens = scope == "token";
  c.core.norm = scope == "prefix" || c.norms_tokens ? RidgeConfig::Norm::prefix : RidgeConfig::Norm::sequence;
  c.is_gated = get_choice(config, "gate", {"none", "sigmoid"}, "none", "ska") == "sigmoid";
  return c;
}

}  // namespace

Ska::Ska(const SkaConfig& config, const ParameterScope& parameters)
    : config_(config),
      k_proj_(parameters.add("k_proj.weight", {config.heads * config.rank, config.width}, orthogonal())),
      q_proj_(parameters.add("q_proj.weight", {config.heads * config.rank, config.width}, orthogonal())),
      v_proj_(parameters.add("v_proj.weight", {config.heads * config.value_width, config.width}, fan_in_uniform())),
      o_proj_(parameters.add("o_proj.weight", {config.width, config.heads * config.value_width}, zeros())),
      eta_(parameters.add("eta", {config.heads}, constant(config.first_eta))),
      gamma_raw_(parameters.add("gamma_raw", {config.heads}, zeros())) {
  if (config.is_gated) gate_proj_ = &parameters.add("gate_proj.weight", {config.heads, config.width}, fan_in_uniform());
}

Storage Ska::storage(const Backend& backend, const Shape& input) const {
  if (config_.norms_tokens || config_.is_gated) return Storage::wide;
  RidgeInputs sizes;
  sizes.z.shape = {input[0], input[1], config_.heads, config_.rank};
  sizes.v.shape = {input[0], input[1], config_.heads, config_.value_width};
  return backend.reads_out_narrow(config_.core, sizes) ? Storage::narrow : Storage::wide;
}

RidgeVars Ska::project(Tape& tape, const Var& x, Storage stored) const {
  const Var weights[] = {tape.parameter(k_proj_), tape.parameter(q_proj_), tape.parameter(v_proj_)};
  Var flat[3];
  linear_many(tape, x, weights, flat, {}, stored);
  const auto heads = [&](const Var& map, std::int64_t width) {
    if (map.value.dtype == DType::bf16) return map;  // the kernel reads its strided rows without a copy
    return tape.reshape(map, {x.shape()[0], x.shape()[1], config_.heads, width});
  };
  RidgeVars vars;
  vars.z = heads(flat[0], config_.rank);
  vars.q = heads(flat[1], config_.rank);
  vars.v = heads(flat[2], config_.value_width);
  if (config_.norms_tokens) {
    vars.z = unit_norm(tape, vars.z, min_key_norm);
    vars.q = unit_norm(tape, vars.q, min_key_norm);
  }
  vars.eta = tape.parameter(eta_);
  vars.gamma_raw = tape.parameter(gamma_raw_);
  tape.hook("keys", vars.z);
  tape.hook("queries", vars.q);
  tape.hook("values", vars.v);
  return vars;
}

bool Ska::is_causal() const {
  using Mode = RidgeConfig::Mode;
  const RidgeConfig& core = config_.core;
  return core.mode == Mode::recurrent || (core.mode == Mode::chunk && core.norm == RidgeConfig::Norm::prefix);
}

bool Ska::reads_later_tokens() const {
  return config_.core.mode == RidgeConfig::Mode::prefix || config_.core.mode == RidgeConfig::Mode::masked;
}

Var Ska::join_heads(Tape& tape, const Var& heads, const Var& x) const {
  const Shape& s = heads.shape();
  if (gate_proj_ == nullptr)
    return linear(tape, tape.reshape(heads, {s[0], s[1], s[2] * s[3]}), tape.parameter(o_proj_));
  const Var gate = unary(tape, Unary::sigmoid, linear(tape, x, tape.parameter(*gate_proj_)));
  tape.hook("gate", gate.value);
  const Var gated = multiply_rows(tape, heads, gate, 0.0);
  return linear(tape, tape.reshape(gated, {s[0], s[1], s[2] * s[3]}), tape.parameter(o_proj_));
}

Var Ska::forward(Tape& tape, const Var& x, const Tensor& mask) {
  RidgeVars vars = project(tape, x, storage(tape.backend(), x.shape()));
  if (config_.core.mode == RidgeConfig::Mode::masked) vars.mask = mask;
  RidgeSaved saved;
  const Var heads = ridge_readout(tape, config_.core, vars, &saved);
  tape.hook("readout", heads);
  hook_statistics(tape, saved,
                  config_.core.mode == RidgeConfig::Mode::chunk || config_.core.mode == RidgeConfig::Mode::recurrent);
  return join_heads(tape, heads, x);
}

Var Ska::forward_as_stepped(Tape& tape, const Var& x) {
  RidgeConfig core = config_.core;
  core.mode = RidgeConfig::Mode::recurrent;
  const RidgeVars vars = project(tape, x);
  const Var heads = ridge_readout(tape, core, vars);
  tape.hook("readout", heads);
  return join_heads(tape, heads, x);
}

std::vector<StateSlope> Ska::state_slopes(Tape& tape, const HookedVars& hooked) const {
  const std::vector<double> eta = to_host(tape.backend(), eta_.value),
                            gamma_raw = to_host(tape.backend(), gamma_raw_.value),
                            keys = to_host(tape, hooked.at("keys")), queries = to_host(tape, hooked.at("queries")),
                            values = to_host(tape, hooked.at("values")),
                            readout_slope = gradient_to_host(tape, hooked.at("readout"));
  const auto heads = static_cast<std::size_t>(config_.heads), rank = static_cast<std::size_t>(config_.rank),
             tokens = keys.size() / (heads * rank);
  std::vector<StateSlope> slopes{{"G", {}}, {"M", {}}, {"C", {}}, {"previous_key", {}}, {"m", {}}};
  for (std::size_t h = 0; h < heads; ++h) {
    RidgeRun run;
    run.rank = rank;
    run.value_width = static_cast<std::size_t>(config_.value_width);
    run.power = config_.core.power;
    run.power_iterations = config_.core.power_iterations;
    run.ridge = config_.core.ridge;
    run.jitter = ska_jitter_step;
    run.gamma = ridge_gamma(gamma_raw[h]);
    run.eta = eta[h];
    run.keys = part_of_rows(keys, tokens, h, heads);
    run.queries = part_of_rows(queries, tokens, h, heads);
    run.values = part_of_rows(values, tokens, h, heads);
    run.readout_slope = part_of_rows(readout_slope, tokens, h, heads);
    const RidgeSlopes own = ridge_slopes(run);
    const std::vector<double>* parts[] = {&own.G, &own.M, &own.C, &own.previous_key, &own.m};
    for (std::size_t i = 0; i < slopes.size(); ++i) put_part_of_rows(slopes[i].values, *parts[i], tokens, h, heads);
  }
  return slopes;
}

Var Ska::forward_edited(Tape& tape, const Var& x, const Tensor& mask, const LayerEdit& edit) {
  RidgeConfig core = config_.core;
  if (edit.power) core.power = *edit.power;
  if (edit.ridge) core.ridge = *edit.ridge;
  RidgeVars vars = project(tape, x);
  if (core.mode == RidgeConfig::Mode::masked) vars.mask = mask;
  RidgeSaved saved;
  const Var answers = ridge_readout(tape, core, vars, &saved);
  hook_statistics(tape, saved, core.mode == RidgeConfig::Mode::chunk || core.mode == RidgeConfig::Mode::recurrent);
  const Var edited = answer_edited(tape, core, vars, saved, answers, edit);
  tape.hook("readout", edited);
  return join_heads(tape, edited, x);
}

namespace {

/// Host copies of the tensors from which edited heads are computed.
struct EditedHeads {
  const SkaConfig& config;
  std::int64_t batch, tokens, groups;
  std::vector<double> L, A_w, C, m, sigma, q, eta, gamma_raw;

  std::size_t square() const { return static_cast<std::size_t>(config.rank * config.rank); }
  static std::span<const double> entry(const std::vector<double>& all, std::size_t i, std::size_t size) {
    return std::span(all).subspan(i * size, size);
  }
  std::vector<double> power_of(std::size_t i, std::int64_t head, int power, const HeadEdit& edit) const {
    const double gamma = edit.gamma.value_or(ridge_gamma(gamma_raw[static_cast<std::size_t>(head)]));
    return edited_power(entry(A_w, i, square()), static_cast<int>(config.rank), gamma / std::max(sigma[i], 1.0), power,
                        edit.modes, edit.numbered);
  }
  /// Writes the outputs of one head and group to y [B,T,H,P]; `filter` is its W.
  void answer(std::vector<double>& y, std::int64_t b, std::int64_t head, std::int64_t g, std::int64_t piece,
              const std::vector<double>& filter, double gain) const {
    const std::int64_t r = config.rank, width = config.value_width;
    const auto i = static_cast<std::size_t>((b * config.heads + head) * groups + g);
    const std::vector<double> E =
        edited_readout(entry(C, i, static_cast<std::size_t>(width * r)), entry(L, i, square()), filter,
                       static_cast<int>(r), static_cast<int>(width));
    for (std::int64_t t = g * piece; t < std::min(tokens, (g + 1) * piece); ++t) {
      const std::int64_t row = (b * tokens + t) * config.heads + head;
      for (std::int64_t p = 0; p < width; ++p) {
        double sum = 0;
        for (std::int64_t a = 0; a < r; ++a)
          sum += E[static_cast<std::size_t>(p * r + a)] * q[static_cast<std::size_t>(row * r + a)];
        y[static_cast<std::size_t>(row * width + p)] = gain / m[i] * sum;
      }
    }
  }
};

}  // namespace

// Where a mode cannot be separated from the others (a defective operator) the kernel's result stays.
Var Ska::answer_edited(Tape& tape, const RidgeConfig& core, const RidgeVars& vars, const RidgeSaved& saved,
                       const Var& answers, const LayerEdit& edit) const {
  const bool is_plain =
      std::all_of(edit.heads.begin(), edit.heads.end(), [](const HeadEdit& head) { return head.is_plain(); });
  const bool wants_operators = tape.wants("operator");
  if (is_plain && !wants_operators) return answers;
  Backend& backend = tape.backend();
  const auto host = [&](const Tensor& tensor) { return to_host(backend, tensor); };
  const std::int64_t batch = answers.shape()[0], tokens = answers.shape()[1], groups = core.groups(tokens);
  const EditedHeads heads{config_,
                          batch,
                          tokens,
                          groups,
                          host(saved.L),
                          host(saved.A_w),
                          host(saved.C),
                          host(saved.m),
                          host(saved.sigma),
                          host(vars.q.value),
                          host(vars.eta.value),
                          host(vars.gamma_raw.value)};
  const std::int64_t piece = core.mode == RidgeConfig::Mode::chunk       ? core.chunk
                             : core.mode == RidgeConfig::Mode::recurrent ? 1
                                                                         : tokens;
  std::vector<double> y = host(answers.value), operators(heads.L.size(), 0.0);
  for (std::int64_t i = 0; i < batch * config_.heads * groups; ++i) {
    const std::int64_t b = i / (config_.heads * groups), head = i / groups % config_.heads, g = i % groups;
    HeadEdit own = edit.heads.empty() ? HeadEdit{} : edit.heads[static_cast<std::size_t>(head)];
    if (own.is_plain() && !wants_operators) continue;
    std::vector<double> filter(heads.square(), 0.0);
    if (!own.is_off) filter = heads.power_of(static_cast<std::size_t>(i), head, core.power, own);
    if (filter.empty()) continue;
    std::copy(filter.begin(), filter.end(), operators.begin() + i * static_cast<std::int64_t>(heads.square()));
    if (own.is_plain()) continue;
    heads.answer(y, b, head, g, piece, filter, own.eta.value_or(heads.eta[static_cast<std::size_t>(head)]));
  }
  const DType dtype = answers.value.dtype;
  if (wants_operators) {
    tape.hook("operator",
              to_device(tape, {batch, config_.heads, groups, config_.rank, config_.rank}, dtype, operators));
  }
  return is_plain ? answers : tape.constant(to_device(tape, answers.shape(), dtype, y));
}

LayerState Ska::make_state(Backend& backend, DType dtype, std::int64_t batch) const {
  LayerState state(backend);
  state.add("G", {batch, config_.heads, config_.rank, config_.rank}, dtype);
  state.add("M", {batch, config_.heads, config_.rank, config_.rank}, dtype);
  state.add("C", {batch, config_.heads, config_.value_width, config_.rank}, dtype);
  state.add("previous_key", {batch, config_.heads, config_.rank}, dtype);
  state.add("m", {batch, config_.heads}, dtype);
  return state;
}

// The kernel lets m grow with a longer key. To freeze m, this class scales such a key to just below m for the kernel,
// and adds the missing part of the sums z z^T, z z_before^T and v z^T afterwards, in float64 on the host.
struct Ska::LongKeys {
  struct One {
    std::size_t head;            ///< of all sequences
    std::vector<double> scaled;  ///< z / m, which the next token has before it
  };
  std::vector<One> found;

  LongKeys(Tape& tape, RidgeVars& vars, const RidgeState& state, std::size_t r, std::size_t width) {
    constexpr double below = 1 - 1e-6;
    Backend& backend = tape.backend();
    const std::vector<double> m = to_host(backend, state.m);
    std::vector<double> z = to_host(backend, vars.z.value), kept(m.size(), 1.0);
    for (std::size_t i = 0; i < m.size(); ++i) {
      double square = 0;
      for (std::size_t a = 0; a < r; ++a) square += z[i * r + a] * z[i * r + a];
      if (!(m[i] > 0) || !(std::sqrt(square) > below * m[i])) continue;  // m is 0 before the first token
      kept[i] = below * m[i] / std::sqrt(square);
      found.push_back({i, {}});
      for (std::size_t a = 0; a < r; ++a) {
        found.back().scaled.push_back(z[i * r + a] / m[i]);
        z[i * r + a] *= kept[i];
      }
    }
    if (found.empty()) return;
    std::vector<double> G = to_host(backend, state.G), M = to_host(backend, state.M), C = to_host(backend, state.C);
    const std::vector<double> before = to_host(backend, state.previous_key), v = to_host(backend, vars.v.value);
    for (const One& one : found) {
      const std::size_t i = one.head;
      for (std::size_t a = 0; a < r; ++a) {
        for (std::size_t b = 0; b < r; ++b) {
          G[(i * r + a) * r + b] += (1 - kept[i] * kept[i]) * one.scaled[a] * one.scaled[b];
          M[(i * r + a) * r + b] += (1 - kept[i]) * one.scaled[a] * before[i * r + b];
        }
      }
      for (std::size_t p = 0; p < width; ++p) {
        for (std::size_t b = 0; b < r; ++b)
          C[(i * width + p) * r + b] += (1 - kept[i]) * v[i * width + p] * one.scaled[b];
      }
    }
    write(tape, state.G, G);
    write(tape, state.M, M);
    write(tape, state.C, C);
    vars.z = tape.constant(to_device(tape, vars.z.shape(), vars.z.value.dtype, z));
  }
  /// After the step: stores the unscaled key as previous key.
  void leave(Tape& tape, const RidgeState& state, std::size_t r) const {
    if (found.empty()) return;
    std::vector<double> previous = to_host(tape.backend(), state.previous_key);
    for (const One& one : found)
      std::ranges::copy(one.scaled, previous.begin() + static_cast<std::ptrdiff_t>(one.head * r));
    write(tape, state.previous_key, previous);
  }
  static void write(Tape& tape, const Tensor& into, const std::vector<double>& values) {
    tape.backend().copy(into, to_device(tape, into.shape, into.dtype, values));
  }
};

Var Ska::step(Tape& tape, const Var& x, LayerState& state) {
  ++state.position;
  RidgeVars vars = project(tape, x);
  const RidgeState running{state.get("G"), state.get("M"), state.get("C"), state.get("previous_key"), state.get("m")};
  RidgeSaved saved;
  const auto rank = static_cast<std::size_t>(config_.rank), width = static_cast<std::size_t>(config_.value_width);
  std::optional<LongKeys> long_keys;
  if (state.keeps_scale) long_keys.emplace(tape, vars, running, rank, width);
  const Var heads = ridge_step(tape, config_.core, vars, running, &saved);
  if (long_keys) long_keys->leave(tape, running, rank);
  hook_statistics(tape, saved, false);
  tape.hook("readout", heads);
  return join_heads(tape, heads, x);
}

std::int64_t Ska::state_bytes(DType dtype, std::int64_t) const {
  const std::int64_t r = config_.rank;
  const std::int64_t numbers = 2 * r * r + config_.value_width * r + r + 1;
  return config_.heads * numbers * static_cast<std::int64_t>(size_of(dtype));
}

std::vector<LayerSetting> Ska::settings() const {
  return {{"K", "Power K", "how often the fitted operator acts on a query; 0 is ridge regression",
           static_cast<double>(config_.core.power), 0, 8, false, true},
          {"ridge", "ridge ε (training)", "what is added to the diagonal of the Gram matrix", config_.core.ridge, 1e-6,
           1, true, false}};
}

void Ska::set(std::string_view key, double value) {
  if (key == "K") config_.core.power = static_cast<int>(value);
  if (key == "ridge") config_.core.ridge = value;
}

LayerKind ska_kind() {
  return {.name = "ska",
          .description =
              "Spectral Koopman Attention: ridge regression of the context, read through a power of its operator",
          .source = "Echo 3.2",
          .make = make_read<Ska, read_config>,
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
