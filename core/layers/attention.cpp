// Causal softmax attention.
#include "core/layers/attention.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/analysis/attention/query_jacobian.h"
#include "core/analysis/depth_bounds.h"
#include "core/analysis/influence/smooth_routing.h"
#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/layers/key_cache.h"
#include "core/layers/layer_kind.h"
#include "core/ops/ops.h"

namespace afterglow {

namespace {

std::array<const Parameter*, 3> add_biases(const AttentionConfig& config, const ParameterScope& parameters) {
  if (!config.biases) return {};
  const std::int64_t keys = config.key_heads * config.head_width();
  return {&parameters.add("q_proj.bias", {config.width}, zeros()), &parameters.add("k_proj.bias", {keys}, zeros()),
          &parameters.add("v_proj.bias", {keys}, zeros())};
}

}  // namespace

Attention::Attention(const AttentionConfig& config, const ParameterScope& parameters)
    : config_(config),
      q_proj_(parameters.add("q_proj.weight", {config.width, config.width}, fan_in_uniform())),
      k_proj_(
          parameters.add("k_proj.weight", {config.key_heads * config.head_width(), config.width}, fan_in_uniform())),
      v_proj_(
          parameters.add("v_proj.weight", {config.key_heads * config.head_width(), config.width}, fan_in_uniform())),
      biases_(add_biases(config, parameters)),
      o_proj_(parameters.add("o_proj.weight", {config.width, config.width}, fan_in_uniform())) {}

double Attention::scale() const { return 1.0 / std::sqrt(static_cast<double>(config_.head_width())); }

// RoPE and o_proj accept the storage that tiled attention accepts.
Storage Attention::storage(const Backend& backend, const Shape& input) const {
  return heads_storage(backend, input, config_.heads, config_.key_heads, config_.head_width());
}

std::array<Var, 3> Attention::project(Tape& tape, const Var& x) const {
  const Var weights[] = {tape.parameter(q_proj_), tape.parameter(k_proj_), tape.parameter(v_proj_)};
  std::array<Var, 3> maps, biases;
  for (std::size_t i = 0; i < biases.size() && config_.biases; ++i) biases[i] = tape.parameter(*biases_[i]);
  linear_many(tape, x, weights, maps, config_.biases ? std::span<const Var>(biases) : std::span<const Var>(),
              storage(tape.backend(), x.shape()));
  for (Var& map : maps) map = as_heads(tape, map, config_.head_width());
  return maps;
}

std::array<Var, 2> Attention::turned(Tape& tape, const Var& queries, const Var& keys, std::int64_t position) const {
  if (!config_.rotary) return {queries, keys};
  return rotary_pair(tape, queries, keys, config_.rotary_base, position, config_.head_width());
}

Var Attention::read(Tape& tape, const Var& q, const Var& k, const Var& v) const {
  const Var heads = causal_attention(tape, q, k, v, scale(), config_.head_width());
  tape.place("readout", heads);
  tape.capture("readout", heads.value);
  const Var joined = tape.reshape(heads, {q.shape()[0], q.shape()[1], config_.width});
  return linear(tape, joined, tape.parameter(o_proj_));
}

Var Attention::forward(Tape& tape, const Var& x, const Tensor&) {
  const auto [queries, keys, v] = project(tape, x);
  const auto [q, k] = turned(tape, queries, keys, 0);
  tape.place("queries", q);
  tape.place("keys", k);
  tape.place("values", v);
  if (tape.capturing()) tape.capture("attn", attention_weights(tape, q.value, k.value, scale()));
  tape.capture("keys", k.value);
  tape.capture("values", v.value);
  tape.capture("input", x.value);
  return read(tape, q, k, v);
}

LayerState Attention::make_state(Backend& backend, DType dtype, std::int64_t batch) const {
  LayerState state(backend);
  for (const char* name : {"keys", "values"})
    state.add(name, {batch, first_cache_capacity, config_.key_heads, config_.head_width()}, dtype);
  return state;
}

Var Attention::step(Tape& tape, const Var& x, LayerState& state) {
  const std::int64_t position = state.position++;
  make_room(state, {"keys", "values"});
  const auto [query, key, v] = project(tape, x);
  const auto [q, k] = turned(tape, query, key, position);
  const Var all_keys = tape.constant(append_token(tape, state.get("keys"), k.value, position + 1));
  const Var all_values = tape.constant(append_token(tape, state.get("values"), v.value, position + 1));
  return read(tape, q, all_keys, all_values);
}

std::int64_t Attention::state_bytes(DType dtype, std::int64_t tokens) const {
  return 2 * tokens * config_.key_heads * config_.head_width() * static_cast<std::int64_t>(size_of(dtype));
}

std::vector<SourceForcing> Attention::forcing(const CapturedLayer& captured, std::span<const int> sources) const {
  const auto of = [&](const Parameter* parameter) {
    return parameter == nullptr ? std::vector<double>{} : captured.read.download(parameter->value);
  };
  SmoothRouting routing;
  routing.tokens = captured.tokens;
  routing.width = static_cast<int>(config_.width);
  routing.heads = static_cast<int>(config_.heads);
  routing.key_heads = static_cast<int>(config_.key_heads);
  routing.head_width = routing.value_width = static_cast<int>(config_.head_width());
  routing.alpha = captured.values("attn");
  routing.inputs = captured.values("input");
  routing.query = {of(&q_proj_), of(biases_[0])};
  routing.key = {of(&k_proj_), of(biases_[1])};
  routing.value = {of(&v_proj_), of(biases_[2])};
  routing.values = captured.values("values");
  routing.output = of(&o_proj_);
  routing.scale = scale();
  routing.rotary_base = config_.rotary ? config_.rotary_base : 0;
  const auto width = static_cast<std::size_t>(config_.width);
  std::vector<double> identity(width * width, 0.0);
  for (std::size_t i = 0; i < width; ++i) identity[i * width + i] = 1;
  std::vector<SourceForcing> all;
  for (const int source : sources) {
    SourceForcing& forcing = all.emplace_back();
    forcing.source = source;
    forcing.forward = answer_sensitivity(routing, identity, routing.width, source);
    if (forcing.forward.empty()) return {};
    forcing.own = forcing.forward[static_cast<std::size_t>(source)];
  }
  return all;
}

ReadBound Attention::query_bound(const CapturedLayer& captured) const {
  struct Pairs {
    std::vector<double> keys, values;
  };
  const int groups = static_cast<int>(config_.key_heads);
  std::vector<Pairs> pairs;
  for (int head = 0; head < captured.heads(); head += captured.heads() / groups)
    pairs.push_back({captured.of_group("keys", head, groups), captured.of_group("values", head, groups)});
  return [pairs, tokens = captured.tokens, width = static_cast<int>(config_.head_width()), scale = scale(),
          output = captured.read.download(o_proj_.value), query = captured.read.download(q_proj_.value),
          d = static_cast<int>(config_.width)] {
    std::vector<double> heads;
    for (const Pairs& of : pairs) heads.push_back(attention_query_bound(of.keys, of.values, tokens, width, scale));
    return query_path_bound(output, query, d, heads);
  };
}

namespace {

AttentionConfig read_config(const nlohmann::json& config) {
  const std::string where = "attention";
  refuse_unknown_keys(config, {"d", "n_heads", "n_kv_heads", "use_rope", "rope_base", "qkv_bias"}, where);
  AttentionConfig c;
  c.width = get_integer(config, "d", std::nullopt, 1, 65536, where);
  c.heads = get_integer(config, "n_heads", std::nullopt, 1, 4096, where);
  c.key_heads = get_integer(config, "n_kv_heads", c.heads, 1, c.heads, where);
  c.rotary = get_bool(config, "use_rope", true, where);
  c.rotary_base = get_number(config, "rope_base", 10000.0, 1.0, 1e12, where);
  c.biases = get_bool(config, "qkv_bias", false, where);
  if (c.width % c.heads != 0)
    throw Error(ExitCode::bad_input, "attention: d must be a multiple of n_heads; change one of them");
  if (c.heads % c.key_heads != 0)
    throw Error(ExitCode::bad_input, "attention: n_kv_heads must divide n_heads; change one of them");
  return c;
}

}  // namespace

LayerKind attention_kind() {
  return {
      .name = "attention",
      .description = "causal softmax attention with rotary position code",
      .source = "Vaswani et al. 2017; Su et al. 2021",
      .make = [](const nlohmann::json& config, const ParameterScope& parameters) -> std::unique_ptr<Layer> {
        return std::make_unique<Attention>(read_config(config), parameters);
      },
      .small_config = [](const SmallSizes& s) -> nlohmann::json {
        return {{"d", s.width}, {"n_heads", s.heads}};
      },
      .ink = 1,
      .race_place = 6,
      .readers = {.token_weights = captured_softmax,
                  .forcing = [](const CapturedLayer& layer,
                                std::span<const int> sources) { return layer.as<Attention>().forcing(layer, sources); },
                  .query_bound = [](const CapturedLayer& layer) { return layer.as<Attention>().query_bound(layer); }},
      .shows = LayerTrait::token_shares,
      .pair_products = 7,  // two forward, five backward
      .benchmarks = {{R"({"d":128,"n_heads":4})", 16, 64}, {R"({"d":1024,"n_heads":8})", 4, 8192, "8 heads x 128"}}};
}

}  // namespace afterglow
