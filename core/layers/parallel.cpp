// Layers made of layers: side by side, where all read the same input and their answers are summed, and Zamba2's block
// whose attention and MLP several depths share.
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/layers/layer_kind.h"
#include "core/ops/ops.h"

namespace afterglow {
namespace {

constexpr std::int64_t max_shared_blocks = 64;

struct Part {
  std::unique_ptr<Layer> layer;
  double input_scale = 1, output_scale = 1;
};

/// Its heads are those of its parts, one part after the other; the captures of a part lie under its kind.
class LayerOfParts : public Layer {
 public:
  explicit LayerOfParts(std::vector<Part> parts) : parts_(std::move(parts)) {}
  const std::vector<Part>& parts() const { return parts_; }
  std::int64_t heads() const override {
    std::int64_t sum = 0;
    for (const Part& part : parts_) sum += part.layer->heads();
    return sum;
  }
  bool is_causal() const override { return std::ranges::all_of(parts_, &Layer::is_causal, &Part::layer); }
  bool reads_later_tokens() const override {
    return std::ranges::any_of(parts_, &Layer::reads_later_tokens, &Part::layer);
  }
  Var forward(Tape& tape, const Var& x, const Tensor& mask) override {
    return combine(tape, x, [&](Layer& layer, const Var& in) { return layer.forward(tape, in, mask); });
  }
  std::vector<StateTensor> state_parts() const override {
    std::vector<StateTensor> all;
    for (const Part& part : parts_) std::ranges::copy(part.layer->state_parts(), std::back_inserter(all));
    return all;
  }
  Var step(Tape& tape, const Var& x, LayerState& state) override {
    const std::int64_t position = state.position;
    return combine(tape, x, [&](Layer& layer, const Var& in) {
      state.position = position;  // each part counts the tokens
      return layer.step(tape, in, state);
    });
  }
  Var prefill(Tape& tape, const Var& x, const Tensor& mask, LayerState& state) override {
    return combine(tape, x, [&](Layer& layer, const Var& in) {
      state.position = 0;
      return layer.prefill(tape, in, mask, state);
    });
  }

 protected:
  using Answer = std::function<Var(Layer& part, const Var& in)>;
  virtual Var combine(Tape& tape, const Var& x, const Answer& answer) = 0;
  /// The answer of one part, in its scope.
  Var answer_of(Tape& tape, const Part& part, const Var& x, const Answer& answer) const {
    const auto scaled = [&](const Var& of, double factor) { return factor != 1 ? scale(tape, of, factor) : of; };
    const Tape::Scope scope(tape, part.layer->kind());
    return scaled(answer(*part.layer, scaled(x, part.input_scale)), part.output_scale);
  }
  std::vector<Part> parts_;
};

class Parallel final : public LayerOfParts {
 public:
  using LayerOfParts::LayerOfParts;

 private:
  Var combine(Tape& tape, const Var& x, const Answer& answer) override {
    Var sum;
    for (const Part& part : parts_) {
      const Var own = answer_of(tape, part, x, answer);
      sum = sum.defined() ? add(tape, sum, own) : own;
    }
    return sum;
  }
};

/// y = x + mixer(norm(x + out(mlp(norm(attention(norm([x, e]))))))), e the embedding: attention, MLP and their norms
/// are those of all blocks with the same number. Reads [x, e] [B,T,2d], or x [B,T,d] for both, and is a whole block.
class SharedBlock final : public LayerOfParts {
 public:
  SharedBlock(std::vector<Part> parts, std::unique_ptr<Layer> mlp, std::int64_t width, double eps,
              const ParameterScope& shared, const ParameterScope& own)
      : LayerOfParts(std::move(parts)),
        mlp_(std::move(mlp)),
        width_(width),
        eps_(eps),
        attention_norm_(shared.add("attention_norm.weight", {2 * width}, constant(1.0))),
        mlp_norm_(shared.add("mlp_norm.weight", {width}, constant(1.0))),
        norm_(own.add("norm.weight", {width}, constant(1.0))),
        out_(own.add("out.weight", {width, width}, fan_in_uniform())) {}

 private:
  Var combine(Tape& tape, const Var& in, const Answer& answer) override {
    const auto normed = [&](const Var& of, const Parameter& weight) {
      return rms_norm(tape, of, tape.parameter(weight), eps_);
    };
    Var x = in, both = in;
    if (in.shape().last() == width_) {
      both = join_columns(tape, std::array{in, in});
    } else {
      Var halves[2];
      tape.split_columns(in, std::array{width_, width_}, halves);
      x = contiguous(tape, halves[0]);
    }
    Var y = normed(answer_of(tape, parts_[0], normed(both, attention_norm_), answer), mlp_norm_);
    y = linear(tape, mlp_->forward(tape, y, {}), tape.parameter(out_));
    return add(tape, x, answer_of(tape, parts_[1], normed(add(tape, x, y), norm_), answer));
  }
  std::unique_ptr<Layer> mlp_;
  std::int64_t width_;
  double eps_;
  const Parameter &attention_norm_, &mlp_norm_, &norm_, &out_;
};

/// The layer that a part's configuration describes, with `width` columns.
std::unique_ptr<Layer> make_part(nlohmann::json part, std::int64_t width, const ParameterScope& parameters) {
  const std::string kind = get_string(part, "kind", std::nullopt, "part of a layer");
  part.erase("kind");
  if (const LayerKind* known = find_layer_kind(kind)) part[known->width_field] = width;
  return make_layer(kind, part, parameters.scope(kind));
}

std::unique_ptr<Layer> make_parallel(const nlohmann::json& config, const ParameterScope& parameters) {
  const std::string where = "parallel";
  refuse_unknown_keys(config, {"d", "parts"}, where);
  const std::int64_t width = get_integer(config, "d", std::nullopt, 1, 65536, where);
  if (!config.contains("parts") || !config["parts"].is_array() || config["parts"].empty())
    throw BadInput("parallel.parts: expected a list of layers such as [{\"kind\": \"attention\"}]");
  std::vector<Part> parts;
  std::set<std::string> kinds;
  for (nlohmann::json part : config["parts"]) {
    const std::string kind = get_string(part, "kind", std::nullopt, where + ".parts");
    const LayerKind* known = find_layer_kind(kind);
    if (known != nullptr && (!known->mixes_tokens || known->whole_block || kind == where || !kinds.insert(kind).second))
      throw BadInput("parallel.parts: ", kind,
                     " mixes no tokens, is a whole block or is listed twice; take token mixers of different kinds");
    Part own{nullptr, get_number(part, "input_scale", 1.0, -1e6, 1e6, where),
             get_number(part, "output_scale", 1.0, -1e6, 1e6, where)};
    for (const char* field : {"input_scale", "output_scale"}) part.erase(field);
    own.layer = make_part(part, width, parameters);
    parts.push_back(std::move(own));
  }
  return std::make_unique<Parallel>(std::move(parts));
}

std::unique_ptr<Layer> make_shared_block(const nlohmann::json& config, const ParameterScope& parameters) {
  const std::string where = "shared_block";
  refuse_unknown_keys(config, {"d", "block", "norm_eps", "attention", "mlp", "mixer"}, where);
  const std::int64_t width = get_integer(config, "d", std::nullopt, 1, 32768, where);
  const ParameterScope shared = parameters.scope(
      "shared_weights." + std::to_string(get_integer(config, "block", 0, 0, max_shared_blocks, where)));
  for (const char* field : {"attention", "mlp", "mixer"}) {
    if (!config.contains(field) || !config[field].is_object())
      throw BadInput(where, ".", field, ": expected a layer such as {\"kind\": \"mamba2\"}");
  }
  nlohmann::json attention = config["attention"];
  attention["d_out"] = width;
  std::vector<Part> parts;
  parts.push_back({make_part(attention, 2 * width, shared)});
  std::unique_ptr<Layer> mlp = make_part(config["mlp"], width, shared);
  parts.push_back({make_part(config["mixer"], width, parameters)});
  if (parts[0].layer->kind() == parts[1].layer->kind() || mixes_tokens(mlp->kind()))
    throw BadInput(where, ": attention and mixer must be of two kinds, and the mlp must mix no tokens");
  return std::make_unique<SharedBlock>(std::move(parts), std::move(mlp), width,
                                       get_number(config, "norm_eps", 1e-5, 0.0, 1.0, where), shared, parameters);
}

/// Calls see(part, its first head) for all parts.
template <class See>
void for_parts(const CapturedLayer& layer, const See& see) {
  int first = 0;
  for (const Part& part : layer.as<LayerOfParts>().parts()) {
    const std::string scope = layer.scope + "." + std::string(part.layer->kind());
    // Callers count the tokens by the layer's own captures, of which it has none.
    const int tokens = layer.tokens > 0 ? layer.tokens : static_cast<int>(layer.read.shape(scope + ".values")[1]);
    const CapturedLayer own{*part.layer, layer.read, scope, tokens, layer.context, layer.meanwhile};
    see(own, first);
    first += own.heads();
  }
}

/// What the part that has the layer's `head` reads of it; empty where its kind has no such reader.
template <auto reader>
auto of_part(const CapturedLayer& layer, int head) {
  decltype((LayerReaders().*reader)(layer, head)) result;
  for_parts(layer, [&](const CapturedLayer& part, int first) {
    const auto read = readers_of(part.layer.kind()).*reader;
    if (read && head >= first && head < first + part.heads()) result = read(part, head - first);
  });
  return result;
}

std::vector<HeadGate> gates_of_parts(const CapturedLayer& layer) {
  std::vector<HeadGate> all;
  for_parts(layer, [&](const CapturedLayer& part, int first) {
    const auto read = readers_of(part.layer.kind()).gates;
    for (HeadGate& gate : read != nullptr ? read(part) : std::vector<HeadGate>()) {
      gate.head += first;
      all.push_back(std::move(gate));
    }
  });
  return all;
}

constexpr LayerReaders part_readers{.token_weights = of_part<&LayerReaders::token_weights>,
                                    .gates = gates_of_parts,
                                    .state_modes = of_part<&LayerReaders::state_modes>};

}  // namespace

LayerKind parallel_kind() {
  return {.name = "parallel",
          .description = "token mixers side by side: all read the same input, and their answers are summed",
          .source = "Falcon-H1, section 2.1",
          .make = make_parallel,
          .small_config = [](const SmallSizes& s) -> nlohmann::json {
            return {{"d", s.width},
                    {"parts",
                     {{{"kind", "attention"}, {"n_heads", s.heads}, {"output_scale", 0.5}},
                      {{"kind", "mamba2"}, {"d_state", 8}, {"headdim", s.head_width}}}}};
          },
          .ink = 1,
          .readers = part_readers};
}

LayerKind shared_block_kind() {
  return {
      .name = "shared_block",
      .description = "attention and MLP that several depths share, which read the embedding again, in front of a mixer",
      .source = "Zamba2, section 2 (arXiv 2411.15242)",
      .make = make_shared_block,
      .small_config = [](const SmallSizes& s) -> nlohmann::json {
        return {{"d", s.width},
                {"attention", {{"kind", "attention"}, {"n_heads", s.heads}, {"adapter", {{"rank", 2}}}}},
                {"mlp", {{"kind", "swiglu"}, {"d_ff", 2 * s.width}, {"adapter", {{"rank", 2}}}}},
                {"mixer", {{"kind", "mamba2"}, {"d_state", 8}, {"headdim", s.head_width}}}};
      },
      .whole_block = true,
      .reads_embedding = true,
      .ink = 1,
      .readers = part_readers};
}

}  // namespace afterglow
