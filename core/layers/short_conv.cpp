// A short convolution between two gates: [b, c, u] = in_proj x, y = out_proj(c conv(b u)), the token mixer of LFM2.
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/io/json_file.h"
#include "core/layers/layer_kind.h"
#include "core/ops/ops.h"

namespace afterglow {
namespace {

struct ShortConvConfig : JsonFields {
  explicit ShortConvConfig(const nlohmann::json& config) : JsonFields(config, "short_conv") { refuse_others(); }
  std::int64_t width = integer("d", {}, 1, 65536);
  std::int64_t taps = integer("conv_size", 3, 1, 64);
  bool biases = flag("bias", false);  ///< of projections and convolution
};

/// Captures: `values` [B,T,d], the inputs of the convolution; `gate` [B,T,d], c; `taps` [d,1,w]; `readout` [B,T,1,d].
class ShortConv final : public Layer {
 public:
  ShortConv(const ShortConvConfig& config, const ParameterScope& parameters)
      : config_(config),
        in_proj_(parameters.add("in_proj.weight", {3 * config.width, config.width}, fan_in_uniform())),
        conv_(parameters.add("conv.weight", {config.width, 1, config.taps}, fan_in_uniform())),
        out_proj_(parameters.add("out_proj.weight", {config.width, config.width}, fan_in_uniform())) {
    if (!config.biases) return;
    in_bias_ = &parameters.add("in_proj.bias", {3 * config.width}, zeros());
    conv_bias_ = &parameters.add("conv.bias", {config.width}, zeros());
    out_bias_ = &parameters.add("out_proj.bias", {config.width}, zeros());
  }
  std::int64_t heads() const override { return 1; }
  std::int64_t taps() const { return config_.taps; }

  Var forward(Tape& tape, const Var& x, const Tensor&) override { return mix(tape, x, {}); }
  std::vector<StateTensor> state_parts() const override { return {{"history", {config_.taps - 1, config_.width}}}; }
  Var step(Tape& tape, const Var& x, LayerState& state) override {
    state.position += x.shape()[1];
    return mix(tape, x, state.find("history"));
  }

 private:
  Var mix(Tape& tape, const Var& x, const Tensor& history) const {
    const std::int64_t widths[] = {config_.width, config_.width, config_.width};
    Var parts[3];
    tape.split_columns(linear(tape, x, tape.parameter(in_proj_), optional_parameter(tape, in_bias_)), widths, parts);
    const Var values = multiply(tape, contiguous(tape, parts[0]), parts[2]);
    tape.hook("values", values);
    tape.hook("gate", parts[1]);
    const Var gate = contiguous(tape, parts[1]);
    tape.hook("taps", conv_.value);
    const Var mixed =
        plain_causal_conv(tape, values, tape.parameter(conv_), optional_parameter(tape, conv_bias_), history);
    const Var y = multiply(tape, gate, mixed);
    tape.hook("readout", tape.reshape(y, {x.shape()[0], x.shape()[1], 1, config_.width}));
    return linear(tape, y, tape.parameter(out_proj_), optional_parameter(tape, out_bias_));
  }

  ShortConvConfig config_;
  const Parameter &in_proj_, &conv_, &out_proj_, *in_bias_ = nullptr, *conv_bias_ = nullptr, *out_bias_ = nullptr;
};

/// How much of a token passes to a later one: the mean over channels of |gate tap|, because each channel has its own.
WeightMatrix tap_weights(const CapturedLayer& layer, int) {
  const std::vector<double>&gate = layer.values("gate"), &taps = layer.values("taps");
  const auto tokens = static_cast<std::size_t>(layer.tokens), width = gate.size() / tokens,
             reach = static_cast<std::size_t>(layer.as<ShortConv>().taps());
  WeightMatrix weights(tokens * tokens, 0.0);
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t lag = 0; lag < std::min(reach, t + 1); ++lag) {
      for (std::size_t c = 0; c < width; ++c)
        weights[t * tokens + t - lag] +=
            std::abs(gate[t * width + c] * taps[c * reach + reach - 1 - lag]) / static_cast<double>(width);
    }
  }
  return weights;
}

}  // namespace

LayerKind short_conv_kind() {
  return {.name = "short_conv",
          .description = "a short convolution between two gates",
          .source = "LFM2, Lfm2ShortConv of transformers",
          .make = make_read<ShortConv, ShortConvConfig>,
          .small_config = [](const SmallSizes& s) -> nlohmann::json {
            return {{"d", s.width}};
          },
          .ink = 2,
          .readers = {.token_weights = tap_weights}};
}

}  // namespace afterglow
