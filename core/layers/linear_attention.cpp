// Causal linear attention: the simplest memory, a sum of v k^T without decay, a baseline for the other layers.
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/io/json_file.h"
#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"
#include "core/layers/scan_slopes.h"
#include "core/ops/ops.h"

namespace afterglow {
namespace {

struct LinearAttentionConfig : JsonFields {
  explicit LinearAttentionConfig(const nlohmann::json& config) : JsonFields(config, "linear_attention") {
    refuse_others();
    if (width % heads != 0) refuse(": d must be a multiple of n_heads; change one of them");
  }
  std::int64_t width = integer("d", {}, 1, 65536);
  std::int64_t heads = integer("n_heads", {}, 1, 4096);
  std::int64_t head_width() const { return width / heads; }
};

/// y_t = o_proj(D^-0.5 sum_{s <= t} (q_t . k_s) v_s): no feature map, and not divided by a sum of weights, so outputs
/// grow with the number of tokens. Captures: `final_state` [B,H,D,D] = sum v k^T; `keys`, `values` and `queries` (with
/// their factor D^-0.5) [B,T,H*D]; `readout`, the outputs of the heads before o_proj.
class LinearAttention final : public Layer {
 public:
  LinearAttention(const LinearAttentionConfig& config, const ParameterScope& parameters)
      : config_(config),
        q_proj_(parameters.add("q_proj.weight", {config.width, config.width}, fan_in_uniform())),
        k_proj_(parameters.add("k_proj.weight", {config.width, config.width}, fan_in_uniform())),
        v_proj_(parameters.add("v_proj.weight", {config.width, config.width}, fan_in_uniform())),
        o_proj_(parameters.add("o_proj.weight", {config.width, config.width}, fan_in_uniform())) {}
  std::int64_t heads() const override { return config_.heads; }
  bool projects_once() const override { return config_.width % 8 == 0; }
  Var forward(Tape& tape, const Var& x, const Tensor&) override {
    const Tensor state = tape.wants("final_state") ? tape.scratch(state_shape(x.shape()[0]), x.value.dtype) : Tensor();
    const Var y = run(tape, x, state, false);
    if (state.defined()) tape.hook("final_state", state);
    return y;
  }
  // The scan computes every token as `step` does.
  Var forward_as_stepped(Tape& tape, const Var& x) override { return run(tape, x, {}, false, true); }
  std::vector<StateSlope> state_slopes(Tape& tape, const HookedVars& hooked) const override {
    HookedScan scan{config_.heads,
                    config_.heads,
                    {},
                    to_host(tape, hooked.at("queries")),
                    gradient_to_host(tape, hooked.at("readout"))};
    const std::size_t tokens = scan.C.size() / static_cast<std::size_t>(config_.width);
    scan.decay.assign(tokens * static_cast<std::size_t>(config_.heads), 1.0);
    return slopes_of_scan(scan);
  }
  std::int64_t heads_at(std::string_view place) const override {
    return place == "queries" || place == "keys" || place == "values" ? config_.heads : 1;
  }
  /// The sum of v k^T.
  std::vector<StateTensor> state_parts() const override { return {{"state", state_shape(1).tail()}}; }
  Var step(Tape& tape, const Var& x, LayerState& state) override {
    state.position += x.shape()[1];
    return run(tape, x, state.get("state"), true);
  }

 private:
  /// Storage of queries, keys, values and readout for such an input.
  // Scaling, the chunked scan and o_proj accept narrow values.
  Storage storage(const Backend& backend, const Shape& input) const {
    ScanInputs sizes;
    sizes.heads = sizes.groups = static_cast<int>(config_.heads);
    sizes.x.shape = sizes.B.shape = sizes.C.shape = input;
    return backend.plan(sizes).stored;
  }
  Var run(Tape& tape, const Var& x, const Tensor& state, bool resume, bool is_stepped = false) const {
    const Var weights[] = {tape.parameter(q_proj_), tape.parameter(v_proj_), tape.parameter(k_proj_)};
    Var maps[3];
    linear_many(tape, x, weights, maps, {}, is_stepped ? Storage::wide : storage(tape.backend(), x.shape()));
    ScanVars scan;
    scan.x = maps[1];
    scan.B = maps[2];
    scan.C = scale(tape, maps[0], 1.0 / std::sqrt(static_cast<double>(config_.head_width())));
    scan.heads = scan.groups = config_.heads;
    hook_reading(tape, scan.C, scan.B, scan.x);
    const Var heads = ssd_scan(tape, scan, state, resume);
    tape.hook("readout", heads);
    return linear(tape, tape.reshape(heads, x.shape()), tape.parameter(o_proj_));
  }
  Shape state_shape(std::int64_t batch) const {
    return {batch, config_.heads, config_.head_width(), config_.head_width()};
  }

  LinearAttentionConfig config_;
  const Parameter &q_proj_, &k_proj_, &v_proj_, &o_proj_;
};

// The captured queries contain the factor D^-0.5 already.
WeightMatrix linear_weights(const CapturedLayer& layer, int head) {
  return linear_token_weights(layer.of_head("keys", head), layer.of_head("queries", head), layer.tokens, 1.0);
}

}  // namespace

LayerKind linear_attention_kind() {
  return {.name = "linear_attention",
          .description = "causal linear attention, an unnormalised sum that never fades",
          .source = "Katharopoulos et al. 2020, without a feature map",
          .make = make_read<LinearAttention, LinearAttentionConfig>,
          .small_config = [](const SmallSizes& s) -> nlohmann::json {
            return {{"d", s.width}, {"n_heads", s.heads}};
          },
          .ink = 5,
          .readers = {.token_weights = linear_weights,
                      // There is no decay: every eigenvalue is 1.
                      .state_modes = [](const CapturedLayer&, int) { return std::vector<std::complex<double>>{1.0}; }},
          .benchmarks = {{R"({"d":128,"n_heads":4})", 16, 64}}};
}

}  // namespace afterglow
