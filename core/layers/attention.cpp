// Causal softmax attention: the exact memory that grows with every token, the reference for the other layers, with what
// plain transformers and the hybrids have: grouped key heads, a width of heads, norms of queries and keys, rotary
// position code of any rates, windows, an output gate, and keys and values made from one latent vector a token.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/analysis/attention/query_jacobian.h"
#include "core/analysis/depth_bounds.h"
#include "core/analysis/influence/smooth_routing.h"
#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/layers/adapter.h"
#include "core/layers/key_cache.h"
#include "core/layers/layer_kind.h"
#include "core/ops/ops.h"

namespace afterglow {
namespace {

/// What is divided by its root mean square after the projection of queries and keys, before they turn.
enum class QueryNorm { none, head, whole };

/// {"type": "linear" | "llama3" | "yarn", "factor": 8, ..}: how rates are stretched; the numbers are those of
/// core/backend/rotary.h.
void read_scaling(const nlohmann::json& config, const std::string& where, RotaryRates& rates) {
  const std::string type = get_choice(config, "type", {"linear", "llama3", "yarn"}, std::nullopt, where);
  std::vector<std::string> known{"type", "factor", "gain"};
  if (type != "linear") known.insert(known.end(), {"low", "high"});
  if (type == "llama3") known.emplace_back("original");
  refuse_unknown_keys(config, known, where);
  rates.factor = get_number(config, "factor", std::nullopt, 1e-6, 1e6, where);
  rates.gain = get_number(config, "gain", 1.0, 1e-6, 1e6, where);
  if (type == "linear") return;
  rates.kept = type == "llama3" ? RotaryRates::Kept::by_turns : RotaryRates::Kept::by_pair;
  rates.low = get_number(config, "low", std::nullopt, 0, 1e9, where);
  rates.high = get_number(config, "high", std::nullopt, type == "llama3" ? 0 : -1e9, 1e9, where);
  if (type == "llama3") rates.original = get_number(config, "original", std::nullopt, 1, 1e12, where);
  if (type == "llama3" ? rates.high <= rates.low : rates.high == rates.low)
    throw BadInput(where, ": high must be more than low, or of yarn another number; change one");
}

struct AttentionConfig : JsonFields {
  explicit AttentionConfig(const nlohmann::json& config);
  std::int64_t width = integer("d", {}, 1, 65536);
  std::int64_t heads = integer("n_heads", {}, 1, 4096);
  std::int64_t key_heads = integer("n_kv_heads", heads, 1, heads);  ///< divides n_heads
  /// Latent attention: keys and values of all heads come from kv_rank numbers a token, but for the last shared_width
  /// columns of keys, which all heads share; queries from q_rank numbers (0: from the input). No position code.
  std::int64_t kv_rank = integer("kv_rank", 0, 0, 65536), q_rank = integer("q_rank", 0, 0, 65536);
  bool rotary = flag("use_rope", kv_rank == 0);
  bool biases = flag("qkv_bias", false), out_bias = flag("o_bias", false);
  /// Columns D of a query and a key; those of a value are as many unless it is latent.
  std::int64_t head = integer("head_dim", std::max<std::int64_t>(1, width / heads), 1, 65536);
  std::int64_t value = integer("value_dim", head, 1, 65536);
  RotaryRates rates = read_rates();
  QueryNorm norm = choice("qk_norm", {"none", "head", "whole"}, QueryNorm::none);
  bool plus_one = flag("norm_plus_one", false);  ///< norms multiply by 1 + weight
  double norm_eps = number("norm_eps", 1e-6, 0, 1);
  bool gate = flag("output_gate", false);  ///< heads times sigmoid(gate_proj x)
  /// Each query sees so many newest keys; 0: all.
  std::int64_t window = integer("window", 0, 0, std::int64_t{1} << 40);
  double scale = number("scale", 0, 0, 1e6);  ///< of scores; 0: D^-0.5
  std::int64_t shared_width = integer("shared_width", 0, 0, head - 1);
  std::int64_t out = integer("d_out", width, 1, 65536);  ///< columns of the answer
  AdapterConfig adapter;
  /// As in Vaswani et al. with RoPE: none of the options above but key heads and biases.
  bool is_plain() const {
    return head * heads == width && out == width && adapter.rank == 0 && value == head && norm == QueryNorm::none &&
           !gate && !out_bias && window == 0 && scale == 0 && kv_rank == 0 && rates.width == 0 && rates.factor == 1.0 &&
           rates.gain == 1.0;
  }

 private:
  RotaryRates read_rates() {
    RotaryRates read{.base = number("rope_base", 10000.0, 1.0, 1e12), .width = integer("rope_width", 0, 0, head)};
    if (read.width == head) read.width = 0;
    if (read.width % 2 != 0) refuse(": rope_width must be even; change it");
    if (const nlohmann::json* scaling = find("rope_scaling")) read_scaling(*scaling, where() + ".rope_scaling", read);
    return read;
  }
};

AttentionConfig::AttentionConfig(const nlohmann::json& config) : JsonFields(config, "attention") {
  if (has("adapter")) adapter = read_adapter(config, where());
  const bool has_width = has("head_dim");
  refuse_others();
  if (!has_width && width % heads != 0) refuse(": d must be a multiple of n_heads; change one of them");
  if (heads % key_heads != 0) refuse(": n_kv_heads must divide n_heads; change one of them");
  if (kv_rank == 0 && (value != head || q_rank > 0 || shared_width > 0))
    refuse(": value_dim, q_rank and shared_width are those of latent attention; set kv_rank");
  if (kv_rank > 0 && (rotary || key_heads != heads || norm != QueryNorm::none || adapter.rank > 0))
    refuse(
        ": latent attention has no position code, key heads, adapters or norms of queries and keys; take out use_rope, "
        "n_kv_heads, adapter and qk_norm");
}

/// Columns of a head in the kernel, which takes keys and values of one width.
std::int64_t padded_width(const AttentionConfig& config) { return std::max(config.head, config.value); }

/// The columns [begin, begin + count) of the last axis.
Var columns(Tape& tape, const Var& x, std::int64_t begin, std::int64_t count) {
  const std::int64_t widths[] = {begin, count, x.shape().last() - begin - count};
  Var parts[3];
  const std::size_t first = begin == 0 ? 1 : 0, last = widths[2] == 0 ? 2 : 3;
  tape.split_columns(x, std::span(widths).subspan(first, last - first), std::span(parts).first(last - first));
  return contiguous(tape, parts[1 - first]);
}

/// Heads [B,T,H,n] with zeros after their columns.
Var padded(Tape& tape, const Var& heads, std::int64_t width) {
  const std::int64_t missing = width - heads.shape().last();
  if (missing == 0) return heads;
  const Var nothing = filled(tape, heads.shape().with_last(missing), heads.value.dtype, 0.0);
  return join_columns(tape, std::array{heads, nothing});
}

/// Captures: `input` [B,T,d]; `attn` [B, n_heads, T, T]: the weights; row t is a distribution over the tokens 0..t;
/// `keys` (normed and rotated) and `values` [B, T, n_kv_heads, D] (latent values end with zeros); `readout`
/// [B, T, n_heads, D], the outputs of the heads before gate and o_proj.
class Attention final : public Layer {
 public:
  Attention(const AttentionConfig& config, const ParameterScope& parameters) : config_(config) {
    const auto matrix = [&](const char* name, std::int64_t rows, std::int64_t columns) {
      return &parameters.add(name, {rows, columns}, fan_in_uniform());
    };
    const auto norm = [&](const char* name, std::int64_t columns) {
      return &parameters.add(name, {columns}, constant(config.plus_one ? 0.0 : 1.0));
    };
    const std::int64_t queries = config.heads * config.head, keys = config.key_heads * config.head,
                       values = config.heads * config.value;
    if (config.kv_rank > 0) {
      if (config.q_rank > 0) {
        q_down_ = matrix("q_a_proj.weight", config.q_rank, config.width);
        q_norm_ = norm("q_a_norm.weight", config.q_rank);
        if (config.biases) biases_[0] = &parameters.add("q_a_proj.bias", {config.q_rank}, zeros());
      }
      q_proj_ = matrix(config.q_rank > 0 ? "q_b_proj.weight" : "q_proj.weight", queries,
                       config.q_rank > 0 ? config.q_rank : config.width);
      k_proj_ = matrix("kv_a_proj.weight", config.kv_rank + config.shared_width, config.width);
      k_norm_ = norm("kv_a_norm.weight", config.kv_rank);
      if (config.biases)
        biases_[1] = &parameters.add("kv_a_proj.bias", {config.kv_rank + config.shared_width}, zeros());
      v_proj_ =
          matrix("kv_b_proj.weight", config.heads * (config.head - config.shared_width + config.value), config.kv_rank);
    } else {
      q_proj_ = matrix("q_proj.weight", queries, config.width);
      k_proj_ = matrix("k_proj.weight", keys, config.width);
      v_proj_ = matrix("v_proj.weight", keys, config.width);
      if (config.biases)
        biases_ = {&parameters.add("q_proj.bias", {queries}, zeros()), &parameters.add("k_proj.bias", {keys}, zeros()),
                   &parameters.add("v_proj.bias", {keys}, zeros())};
      for (std::size_t i = 0; i < adapters_.size() && config.adapter.rank > 0; ++i)
        adapters_[i] =
            Adapter(config.adapter, parameters, std::string(1, "qkv"[i]), i == 0 ? queries : keys, config.width);
      if (config.norm != QueryNorm::none) {
        const bool is_whole = config.norm == QueryNorm::whole;
        q_norm_ = norm("q_norm.weight", is_whole ? queries : config.head);
        k_norm_ = norm("k_norm.weight", is_whole ? keys : config.head);
      }
    }
    if (config.gate) gate_ = matrix("gate_proj.weight", values, config.width);
    if (config.gate && config.biases) biases_[3] = &parameters.add("gate_proj.bias", {values}, zeros());
    o_proj_ = matrix("o_proj.weight", config.out, values);
    if (config.out_bias) o_bias_ = &parameters.add("o_proj.bias", {config.out}, zeros());
  }
  std::int64_t heads() const override { return config_.heads; }
  bool projects_once() const override {
    return config_.is_plain() && q_proj_->shape[0] % 8 == 0 && k_proj_->shape[0] % 8 == 0;
  }
  Var forward(Tape& tape, const Var& x, const Tensor&) override {
    Heads heads = project(tape, x);
    turn(tape, heads, 0);
    hook_reading(tape, heads.q, heads.k, heads.v);
    if (tape.wants("attn"))
      tape.hook("attn", attention_weights(tape, heads.q.value, heads.k.value, scale(), config_.window));
    tape.hook("input", x.value);
    return read(tape, heads, heads.k, heads.v);
  }
  /// The keys are rotated.
  std::vector<StateTensor> state_parts() const override {
    const Shape token{config_.key_heads, padded_width(config_)};
    return {{"keys", token, true}, {"values", token, true}};
  }
  Var step(Tape& tape, const Var& x, LayerState& state) override {
    const std::int64_t position = state.position;
    state.position += x.shape()[1];
    make_room(state, {"keys", "values"});
    Heads heads = project(tape, x);
    turn(tape, heads, position);
    const Var all_keys = tape.constant(append_tokens(tape, state.get("keys"), heads.k.value, state.position));
    const Var all_values = tape.constant(append_tokens(tape, state.get("values"), heads.v.value, state.position));
    return read(tape, heads, all_keys, all_values);
  }
  /// The constant of Sessa's proposition 10 (i) for each source, from the weights and one captured sequence; empty for
  /// a layer that is not plain.
  std::vector<SourceForcing> forcing(const CapturedLayer& captured, std::span<const int> sources) const {
    if (!config_.is_plain()) return {};
    const auto of = [&](const Parameter* parameter) {
      return parameter == nullptr ? std::vector<double>{} : captured.read.download(parameter->value);
    };
    SmoothRouting routing;
    routing.tokens = captured.tokens;
    routing.width = static_cast<int>(config_.width);
    routing.heads = static_cast<int>(config_.heads);
    routing.key_heads = static_cast<int>(config_.key_heads);
    routing.head_width = routing.value_width = static_cast<int>(config_.head);
    routing.alpha = captured.values("attn");
    routing.inputs = captured.values("input");
    routing.query = {of(q_proj_), of(biases_[0])};
    routing.key = {of(k_proj_), of(biases_[1])};
    routing.value = {of(v_proj_), of(biases_[2])};
    routing.values = captured.values("values");
    routing.output = of(o_proj_);
    routing.scale = scale();
    routing.rotary_base = config_.rotary ? config_.rates.base : 0;
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
  /// LayerReaders::query_bound. RoPE rotates queries without changing their length, so it adds no factor. NaN for a
  /// layer that is not plain.
  ReadBound query_bound(const CapturedLayer& captured) const {
    if (!config_.is_plain()) return [] { return std::numeric_limits<double>::quiet_NaN(); };
    struct Pairs {
      std::vector<double> keys, values;
    };
    const int groups = static_cast<int>(config_.key_heads);
    std::vector<Pairs> pairs;
    for (int head = 0; head < captured.heads(); head += captured.heads() / groups)
      pairs.push_back({captured.of_group("keys", head, groups), captured.of_group("values", head, groups)});
    return [pairs, tokens = captured.tokens, width = static_cast<int>(config_.head), scale = scale(),
            output = captured.read.download(o_proj_->value), query = captured.read.download(q_proj_->value),
            d = static_cast<int>(config_.width)] {
      std::vector<double> heads;
      for (const Pairs& of : pairs) heads.push_back(attention_query_bound(of.keys, of.values, tokens, width, scale));
      return query_path_bound(output, query, d, heads);
    };
  }

 private:
  /// Projections as heads [B,T,heads,D], stored narrow [B,T,heads D]; queries and keys normed, not turned. `gate`
  /// [B,T,heads value columns], or undefined.
  struct Heads {
    Var q, k, v, gate;
  };
  /// Storage of queries, keys, values and head outputs for such an input.
  // RoPE and o_proj accept the storage that tiled attention accepts.
  Storage storage(const Backend& backend, const Shape& input) const {
    if (!config_.is_plain()) return Storage::wide;
    return heads_storage(backend, input, config_.heads, config_.key_heads, config_.head);
  }
  Heads project(Tape& tape, const Var& x) const {
    if (config_.kv_rank > 0) return project_latent(tape, x);
    Var weights[] = {tape.parameter(*q_proj_), tape.parameter(*k_proj_), tape.parameter(*v_proj_), {}};
    std::array<Var, 4> maps, biases;
    const std::size_t count = gate_ != nullptr ? 4 : 3;
    if (gate_ != nullptr) weights[3] = tape.parameter(*gate_);
    for (std::size_t i = 0; i < count && config_.biases; ++i) biases[i] = tape.parameter(*biases_[i]);
    linear_many(tape, x, {weights, count}, std::span(maps).first(count),
                config_.biases ? std::span<const Var>(biases).first(count) : std::span<const Var>(),
                storage(tape.backend(), x.shape()));
    for (std::size_t i = 0; i < 3; ++i) maps[i] = as_heads(tape, adapters_[i].added(tape, maps[i], x), config_.head);
    return {normed(tape, maps[0], q_norm_), normed(tape, maps[1], k_norm_), maps[2], maps[3]};
  }
  Heads project_latent(Tape& tape, const Var& x) const {
    const AttentionConfig& c = config_;
    const std::int64_t own = c.head - c.shared_width, batch = x.shape()[0], tokens = x.shape()[1];
    const auto latent_norm = [&](const Var& of, const Parameter& weight) {
      return rms_norm(tape, of, norm_weight(tape, weight, c.plus_one), c.norm_eps);
    };
    Heads heads;
    Var queries = x;
    if (q_down_ != nullptr) {
      queries = linear(tape, x, tape.parameter(*q_down_), optional_parameter(tape, biases_[0]));
      queries = latent_norm(queries, *q_norm_);
    }
    queries = linear(tape, queries, tape.parameter(*q_proj_));
    heads.q = padded(tape, tape.reshape(queries, {batch, tokens, c.heads, c.head}), padded_width(c));
    const Var latent = linear(tape, x, tape.parameter(*k_proj_), optional_parameter(tape, biases_[1]));
    const std::int64_t latent_widths[] = {c.kv_rank, c.shared_width}, head_widths[] = {own, c.value};
    Var parts[2] = {latent, {}}, made[2];
    if (c.shared_width > 0) {
      tape.split_columns(latent, latent_widths, parts);
      parts[0] = contiguous(tape, parts[0]);
    }
    const Var both = linear(tape, latent_norm(parts[0], *k_norm_), tape.parameter(*v_proj_));
    tape.split_columns(tape.reshape(both, {batch, tokens, c.heads, own + c.value}), head_widths, made);
    heads.v = padded(tape, contiguous(tape, made[1]), padded_width(c));
    heads.k = contiguous(tape, made[0]);
    if (c.shared_width > 0) {
      const Var shared = tape.reshape(contiguous(tape, parts[1]), {batch, tokens, 1, c.shared_width});
      heads.k = join_columns(tape, std::array{heads.k, repeat_heads(tape, shared, c.heads)});
    }
    heads.k = padded(tape, heads.k, padded_width(c));
    if (gate_ != nullptr) heads.gate = linear(tape, x, tape.parameter(*gate_));
    return heads;
  }
  Var normed(Tape& tape, const Var& heads, const Parameter* weight) const {
    if (weight == nullptr) return heads;
    const Shape& s = heads.shape();
    const Shape rows = config_.norm == QueryNorm::whole ? Shape{s[0], s[1], s[2] * s[3]} : s;
    const Var y =
        rms_norm(tape, tape.reshape(heads, rows), norm_weight(tape, *weight, config_.plus_one), config_.norm_eps);
    return tape.reshape(y, s);
  }
  void turn(Tape& tape, Heads& heads, std::int64_t position) const {
    if (!config_.rotary) return;
    const auto [q, k] = rotary_pair(tape, heads.q, heads.k, config_.rates, position, config_.head);
    heads.q = q;
    heads.k = k;
  }
  Var read(Tape& tape, const Heads& from, const Var& k, const Var& v) const {
    const Var heads = causal_attention(tape, from.q, k, v, scale(), padded_width(config_),
                                       config_.window > 0 ? config_.window : every_key);
    tape.hook("readout", heads);
    const std::int64_t batch = heads.shape()[0], tokens = heads.shape()[1];
    const Var values = config_.value < padded_width(config_) ? columns(tape, heads, 0, config_.value) : heads;
    Var joined = tape.reshape(values, {batch, tokens, config_.heads * config_.value});
    if (from.gate.defined()) {
      tape.hook("gate", from.gate);
      joined = multiply(tape, joined, unary(tape, Unary::sigmoid, from.gate));
    }
    return linear(tape, joined, tape.parameter(*o_proj_), optional_parameter(tape, o_bias_));
  }
  double scale() const {
    return config_.scale > 0 ? config_.scale : 1.0 / std::sqrt(static_cast<double>(config_.head));
  }

  AttentionConfig config_;
  /// Null where the configuration does not have them. v_proj of a latent layer is kv_b_proj, k_proj is kv_a_proj.
  const Parameter *q_proj_ = nullptr, *k_proj_ = nullptr, *v_proj_ = nullptr, *q_down_ = nullptr, *q_norm_ = nullptr,
                  *k_norm_ = nullptr, *gate_ = nullptr, *o_proj_ = nullptr, *o_bias_ = nullptr;
  std::array<const Parameter*, 4> biases_{};  ///< of q, k, v and the gate
  std::array<Adapter, 3> adapters_{};         ///< of q, k and v
};

}  // namespace

LayerKind attention_kind() {
  return {
      .name = "attention",
      .description = "causal softmax attention with rotary position code",
      .source = "Vaswani et al. 2017; Su et al. 2021",
      .make = make_read<Attention, AttentionConfig>,
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
