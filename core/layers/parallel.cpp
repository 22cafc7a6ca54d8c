// Layers side by side: all read the same input, and their answers are summed.
#include <nlohmann/json.hpp>
#include <set>

#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/layers/layer_kind.h"
#include "core/ops/ops.h"

namespace afterglow {

namespace {

/// Its heads are those of its parts, one part after the other; the captures of a part lie under its kind. Each part's
/// input and answer may be scaled.
class Parallel final : public Layer {
 public:
  struct Part {
    std::unique_ptr<Layer> layer;
    double input_scale = 1, output_scale = 1;
  };
  explicit Parallel(std::vector<Part> parts) : parts_(std::move(parts)) {}
  std::string_view kind() const override { return "parallel"; }
  const std::vector<Part>& parts() const { return parts_; }
  std::int64_t heads() const override {
    std::int64_t sum = 0;
    for (const Part& part : parts_) sum += part.layer->heads();
    return sum;
  }
  bool is_causal() const override {
    return std::ranges::all_of(parts_, [](const Part& part) { return part.layer->is_causal(); });
  }
  bool reads_later_tokens() const override {
    return std::ranges::any_of(parts_, [](const Part& part) { return part.layer->reads_later_tokens(); });
  }
  Var forward(Tape& tape, const Var& x, const Tensor& mask) override {
    return sum_of(tape, x, [&](Layer& layer, const Var& in) { return layer.forward(tape, in, mask); });
  }
  LayerState make_state(Backend& backend, DType dtype, std::int64_t batch) const override {
    LayerState all(backend);
    for (const Part& part : parts_) {
      const LayerState own = part.layer->make_state(backend, dtype, batch);
      for (const auto& [name, tensor] : own.tensors()) all.add(name, tensor.shape, tensor.dtype);
    }
    return all;
  }
  Var step(Tape& tape, const Var& x, LayerState& state) override {
    const std::int64_t position = state.position;
    return sum_of(tape, x, [&](Layer& layer, const Var& in) {
      state.position = position;  // each part counts the token
      return layer.step(tape, in, state);
    });
  }
  std::int64_t state_bytes(DType dtype, std::int64_t tokens) const override {
    std::int64_t sum = 0;
    for (const Part& part : parts_) sum += part.layer->state_bytes(dtype, tokens);
    return sum;
  }

 private:
  template <class Answer>
  Var sum_of(Tape& tape, const Var& x, const Answer& answer) {
    const auto scaled = [&](const Var& of, double factor) { return factor != 1 ? scale(tape, of, factor) : of; };
    Var sum;
    for (const Part& part : parts_) {
      const Tape::Scope scope(tape, part.layer->kind());
      const Var own = scaled(answer(*part.layer, scaled(x, part.input_scale)), part.output_scale);
      sum = sum.defined() ? add(tape, sum, own) : own;
    }
    return sum;
  }
  std::vector<Part> parts_;
};

std::unique_ptr<Layer> make(const nlohmann::json& config, const ParameterScope& parameters) {
  const std::string where = "parallel";
  refuse_unknown_keys(config, {"d", "parts"}, where);
  const std::int64_t width = get_integer(config, "d", std::nullopt, 1, 65536, where);
  if (!config.contains("parts") || !config["parts"].is_array() || config["parts"].empty())
    throw Error(ExitCode::bad_input, "parallel.parts: expected a list of layers such as [{\"kind\": \"attention\"}]");
  std::vector<Parallel::Part> parts;
  std::set<std::string> kinds;
  for (nlohmann::json part : config["parts"]) {
    const std::string kind = get_string(part, "kind", std::nullopt, where + ".parts");
    const LayerKind* known = find_layer_kind(kind);
    if (known != nullptr && (!known->mixes_tokens || known->whole_block || kind == where || !kinds.insert(kind).second))
      throw Error(ExitCode::bad_input, "parallel.parts: " + kind +
                                           " mixes no tokens, is a whole block or is listed twice; "
                                           "take token mixers of different kinds");
    Parallel::Part own;
    own.input_scale = get_number(part, "input_scale", 1.0, -1e6, 1e6, where);
    own.output_scale = get_number(part, "output_scale", 1.0, -1e6, 1e6, where);
    for (const char* field : {"kind", "input_scale", "output_scale"}) part.erase(field);
    if (known != nullptr) part[known->width_field] = width;
    own.layer = make_layer(kind, part, parameters.scope(kind));
    parts.push_back(std::move(own));
  }
  return std::make_unique<Parallel>(std::move(parts));
}

WeightMatrix token_weights(const CapturedLayer& layer, int head) {
  for (const Parallel::Part& part : layer.as<Parallel>().parts()) {
    const int heads = static_cast<int>(part.layer->heads());
    if (head >= heads) {
      head -= heads;
      continue;
    }
    const std::string kind(part.layer->kind());
    const CapturedLayer own{*part.layer,  layer.read,    layer.scope + "." + kind,
                            layer.tokens, layer.context, layer.meanwhile};
    return readers_of(kind).token_weights(own, head);
  }
  throw Error(ExitCode::failure, "there is no such head");
}

}  // namespace

LayerKind parallel_kind() {
  return {.name = "parallel",
          .description = "token mixers side by side: all read the same input, and their answers are summed",
          .source = "Falcon-H1, section 2.1",
          .make = make,
          .small_config = [](const SmallSizes& s) -> nlohmann::json {
            return {{"d", s.width},
                    {"parts",
                     {{{"kind", "attention"}, {"n_heads", s.heads}, {"output_scale", 0.5}},
                      {{"kind", "mamba2"}, {"d_state", 8}, {"headdim", s.head_width}}}}};
          },
          .ink = 1,
          .readers = {.token_weights = token_weights}};
}

}  // namespace afterglow
