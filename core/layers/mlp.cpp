// MLPs, position by position: the gated one of most models, y = w_down(f(w_gate x) * w_up x), the plain one,
// y = w_down(f(w_up x)), and a mixture of experts: a router gives every token the weights of a few MLPs, whose answers
// are summed, next to one that all tokens take.
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/io/json_file.h"
#include "core/layers/adapter.h"
#include "core/layers/layer_kind.h"
#include "core/ops/ops.h"

namespace afterglow {
namespace {

enum class Activation { silu, gelu, gelu_tanh, relu, relu2 };  // relu2 is the square of relu
const std::vector<std::string> activations{"silu", "gelu", "gelu_tanh", "relu", "relu2"};

struct MlpConfig {
  std::int64_t width = 0;  ///< d
  std::int64_t inner = 0;  ///< d_ff
  bool gated = true;
  Activation activation = Activation::silu;
  bool biases = false;                      ///< bias: on all projections
  double gate_scale = 1, output_scale = 1;  ///< factors of w_gate x in front of the function, and of the answer
  AdapterConfig adapter = {};               ///< of w_gate and w_up, which share `down`
};

/// x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)), which is GELU with a tangent in the place of the error function.
Var gelu_tanh(Tape& tape, const Var& x) {
  constexpr double cubic = 0.044715;
  const double slope = 2 * std::sqrt(0.6366197723675814);
  const Var cube = multiply(tape, multiply(tape, x, x), x);
  const Var argument = scale(tape, add(tape, x, scale(tape, cube, cubic)), slope);
  return multiply(tape, x, unary(tape, Unary::sigmoid, argument));
}

Var activated(Tape& tape, const Var& x, Activation kind) {
  if (kind == Activation::gelu) return unary(tape, Unary::gelu, x);
  if (kind == Activation::gelu_tanh) return gelu_tanh(tape, x);
  if (kind == Activation::silu) return unary(tape, Unary::silu, x);
  const Var positive = unary(tape, Unary::relu, x);
  return kind == Activation::relu2 ? multiply(tape, positive, positive) : positive;
}

class Mlp final : public Layer {
 public:
  Mlp(const MlpConfig& config, const ParameterScope& parameters) : config_(config) {
    const auto projection = [&](const std::string& name, std::int64_t rows, std::int64_t columns) {
      Projection own;
      own.weight = &parameters.add(name + ".weight", {rows, columns}, fan_in_uniform());
      if (config.biases) own.bias = &parameters.add(name + ".bias", {rows}, zeros());
      return own;
    };
    if (config.gated) gate_ = projection("w_gate", config.inner, config.width);
    up_ = projection("w_up", config.inner, config.width);
    down_ = projection("w_down", config.width, config.inner);
    if (config.adapter.rank == 0) return;
    up_.adapter = Adapter(config.adapter, parameters, "up", config.inner, config.width);
    if (!config.gated) return;
    gate_.adapter = up_.adapter;
    gate_.adapter.up = &parameters.add(config.adapter.name("gate"), {config.inner, config.adapter.rank}, zeros());
  }
  bool projects_once() const override { return is_fused() && config_.inner % 8 == 0; }
  Var forward(Tape& tape, const Var& x, const Tensor&) override {
    if (is_fused())
      return gated_mlp(tape, x, tape.parameter(*gate_.weight), tape.parameter(*up_.weight),
                       tape.parameter(*down_.weight));
    const auto scaled = [&](const Var& of, double factor) { return factor != 1 ? scale(tape, of, factor) : of; };
    Var inner = up_.of(tape, x);
    if (config_.gated) {
      const Var gate = activated(tape, scaled(gate_.of(tape, x), config_.gate_scale), config_.activation);
      inner = multiply(tape, gate, inner);
    } else {
      inner = activated(tape, inner, config_.activation);
    }
    return scaled(down_.of(tape, inner), config_.output_scale);
  }

 private:
  bool is_fused() const {
    return config_.gated && config_.activation == Activation::silu && !config_.biases && config_.gate_scale == 1 &&
           config_.output_scale == 1 && config_.adapter.rank == 0;
  }
  struct Projection {
    const Parameter *weight = nullptr, *bias = nullptr;
    Adapter adapter = {};
    Var of(Tape& tape, const Var& x) const {
      return adapter.added(tape, linear(tape, x, tape.parameter(*weight), optional_parameter(tape, bias)), x);
    }
  };
  MlpConfig config_;
  Projection gate_, up_, down_;
};

template <bool gated>
std::unique_ptr<Layer> make(const nlohmann::json& config, const ParameterScope& parameters) {
  JsonFields fields(config, gated ? "swiglu" : "mlp");
  const MlpConfig c{.width = fields.integer("d", {}, 1, 65536),
                    .inner = fields.integer("d_ff", {}, 1, 1 << 20),
                    .gated = gated,
                    .activation = fields.choice("activation", activations, Activation::silu),
                    .biases = fields.flag("bias", false),
                    .gate_scale = fields.number("gate_scale", 1.0, -1e6, 1e6),
                    .output_scale = fields.number("output_scale", 1.0, -1e6, 1e6),
                    .adapter = fields.has("adapter") ? read_adapter(config, fields.where()) : AdapterConfig()};
  fields.refuse_others();
  return std::make_unique<Mlp>(c, parameters);
}

nlohmann::json small(const SmallSizes& s) { return {{"d", s.width}, {"d_ff", 3 * s.width}}; }

struct ExpertsConfig : JsonFields {
  explicit ExpertsConfig(const nlohmann::json& config) : JsonFields(config, "experts") {
    refuse_others();
    if (shared_gate && shared == 0) refuse(".shared_gate: there is no shared MLP; set shared_ff or take it out");
  }
  std::int64_t width = integer("d", {}, 1, 65536);
  std::int64_t inner = integer("d_ff", {}, 1, 1 << 20);  ///< of an expert
  std::int64_t count = integer("experts", {}, 1, 4096);
  Router router = read_router();
  bool correction = flag("correction", false);  ///< a bias on scores in the choice of experts alone, without gradient
  bool gated = flag("gated", true);
  Activation activation = choice("activation", activations, Activation::silu);
  std::int64_t shared = integer("shared_ff", 0, 0, 1 << 20);  ///< the width of the MLP that all tokens take; 0: none
  bool shared_gate = flag("shared_gate", false);              ///< its answer times sigmoid(shared_gate x)
  /// So many columns the experts read and write, by two maps; 0: those of the stream.
  std::int64_t latent = integer("latent", 0, 0, 65536);

 private:
  Router read_router() {
    Router r;
    r.groups = integer("groups", 1, 1, max_router_groups);
    r.kept_groups = integer("kept_groups", r.groups, 1, r.groups);
    if (count % r.groups != 0) refuse(".groups: they must divide the number of experts; change one of the two");
    r.chosen = integer("chosen", {}, 1, count / r.groups * r.kept_groups);
    r.sigmoid = word("router", {"softmax", "sigmoid"}, "softmax") == "sigmoid";
    r.normalised = flag("normalised", false);
    r.eps = number("norm_eps", 0.0, 0.0, 1.0);
    r.factor = number("factor", 1.0, 1e-6, 1e6);
    return r;
  }
};

/// Every expert computes every token, and those that were not taken count 0. Captures `expert_weights` [B,T,experts].
class Experts final : public Layer {
 public:
  Experts(const ExpertsConfig& config, const ParameterScope& parameters)
      : config_(config), gate_(parameters.add("router.weight", {config.count, config.width}, fan_in_uniform())) {
    if (config.correction) correction_ = &parameters.add("router.correction", {config.count}, zeros());
    const auto mlp = [&](std::int64_t width, std::int64_t inner, const std::string& name) {
      return Mlp({width, inner, config.gated, config.activation}, parameters.scope(name));
    };
    if (config.latent > 0) {
      to_latent_ = &parameters.add("to_latent.weight", {config.latent, config.width}, fan_in_uniform());
      from_latent_ = &parameters.add("from_latent.weight", {config.width, config.latent}, fan_in_uniform());
    }
    const std::int64_t width = config.latent > 0 ? config.latent : config.width;
    for (std::int64_t e = 0; e < config.count; ++e) experts_.push_back(mlp(width, config.inner, std::to_string(e)));
    if (config.shared > 0) shared_ = std::make_unique<Mlp>(mlp(config.width, config.shared, "shared"));
    if (config.shared_gate) shared_gate_ = &parameters.add("shared_gate.weight", {1, config.width}, fan_in_uniform());
  }
  Var forward(Tape& tape, const Var& x, const Tensor& mask) override {
    const Var weights = route(tape, linear(tape, x, tape.parameter(gate_)),
                              correction_ != nullptr ? correction_->value : Tensor(), config_.router);
    tape.hook("expert_weights", weights);
    std::vector<Var> parts(experts_.size());
    tape.split_columns(weights, std::vector<std::int64_t>(experts_.size(), 1), parts);
    Var sum;
    const auto add_answer = [&](const Var& answer) { sum = sum.defined() ? add(tape, sum, answer) : answer; };
    const Var in = to_latent_ != nullptr ? linear(tape, x, tape.parameter(*to_latent_)) : x;
    for (std::size_t e = 0; e < experts_.size(); ++e)
      add_answer(multiply_rows(tape, experts_[e].forward(tape, in, mask), contiguous(tape, parts[e]), 0.0));
    if (from_latent_ != nullptr) sum = linear(tape, sum, tape.parameter(*from_latent_));
    if (shared_ == nullptr) return sum;
    const Var shared = shared_->forward(tape, x, mask);
    if (shared_gate_ == nullptr) {
      add_answer(shared);
    } else {
      const Var gate = unary(tape, Unary::sigmoid, linear(tape, x, tape.parameter(*shared_gate_)));
      add_answer(multiply_rows(tape, shared, gate, 0.0));
    }
    return sum;
  }

 private:
  ExpertsConfig config_;
  const Parameter &gate_, *correction_ = nullptr, *shared_gate_ = nullptr, *to_latent_ = nullptr,
                          *from_latent_ = nullptr;
  std::vector<Mlp> experts_;
  std::unique_ptr<Mlp> shared_;
};

}  // namespace

LayerKind swiglu_kind() {
  return {.name = "swiglu",
          .description = "gated MLP: w_down(silu(w_gate x) * w_up x)",
          .source = "Shazeer 2020, GLU variants",
          .mixes_tokens = false,
          .make = make<true>,
          .small_config = small,
          .benchmarks = {{R"({"d":128,"d_ff":384})", 16, 64}}};
}

LayerKind mlp_kind() {
  return {.name = "mlp",
          .description = "MLP without a gate: w_down(f(w_up x))",
          .source = "Vaswani et al. 2017, section 3.3",
          .mixes_tokens = false,
          .make = make<false>,
          .small_config = small};
}

LayerKind experts_kind() {
  return {.name = "experts",
          .description = "mixture of experts: a router weighs a few of many MLPs for every token",
          .source = "Shazeer et al. 2017; DeepSeek-V3, section 2.1.2",
          .mixes_tokens = false,
          .make = make_read<Experts, ExpertsConfig>,
          .small_config = [](const SmallSizes& s) -> nlohmann::json {
            return {{"d", s.width}, {"d_ff", s.width}, {"experts", 4}, {"chosen", 2}, {"shared_ff", s.width}};
          }};
}

}  // namespace afterglow
