// Passes over whole sequences, then one long sequence token by token.
#include "core/engine/studies/layer_costs.h"

#include <algorithm>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "core/backend/arena.h"
#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"
#include "core/random/random.h"

namespace afterglow {

namespace {

using nlohmann::json;

constexpr int repeats = 5;
constexpr std::int64_t timed_tokens = 32, distinct_tokens = 251;

struct Measured {
  const char *name, *config;
  double pass_growth, step_growth;  ///< of T, table 1
};
constexpr Measured layers[] = {
    {"attention, RoPE", R"({"kind": "attention", "n_heads": 4})", 2, 1},
    {"Mamba-2", R"({"kind": "mamba2", "d_state": 16, "expand": 2, "headdim": 64})", 1, 0},
    {"SKA", R"({"kind": "ska", "H": 4, "r": 24, "P": 32, "K": 2, "mode": "chunk", "chunk": 64})", 1, 0}};

/// A layer with weights, gradients and a tape of its own.
struct Bench {
  Bench(const std::string& kind_name, json config, std::int64_t tokens, std::int64_t width)
      : backend(make_cpu_backend(1)), arena(*backend), tape(*backend, arena), shape{1, tokens, width} {
    const LayerKind& kind = *find_layer_kind(kind_name);
    config[kind.width_field] = width;
    layer = kind.make(config, ParameterScope(store, "layer"));
    store.allocate(*backend, DType::f32);
    store.initialise(7);
    Random random(7);
    for (std::int64_t i = 0; i < tokens * width; ++i) x.push_back(random.normal());
  }
  /// The whole sequence, or one of its tokens in turn: not one and the same, of which no operator could be fitted.
  Var input() { return tape.constant(to_device(tape, shape, DType::f32, x)); }
  Var token(std::int64_t place) {
    const std::int64_t width = shape.last();
    const std::span<const double> row =
        std::span(x).subspan(static_cast<std::size_t>(place % shape[1] * width), static_cast<std::size_t>(width));
    return tape.constant(to_device(tape, {1, 1, width}, DType::f32, row));
  }

  std::unique_ptr<Backend> backend;
  ParameterStore store;
  Arena arena;
  Tape tape;
  std::unique_ptr<Layer> layer;
  Shape shape;
  std::vector<double> x;
};

/// Of this process, which works in one thread: what else runs on the machine adds little.
double processor_ms() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

void measure_pass(Bench& bench, LayerCost& cost) {
  std::vector<double> times;
  for (int i = 0; i <= repeats; ++i) {
    bench.tape.begin(true);
    const Var x = bench.input();
    const double start = processor_ms();
    const Var y = bench.layer->forward(bench.tape, x, {});
    const Tensor upstream = bench.tape.scratch(y.shape(), DType::f32);
    bench.backend->fill(upstream, 1.0);
    bench.tape.backward(y, upstream);
    if (i > 0) times.push_back(processor_ms() - start);  // the first one allocates
  }
  cost.pass_ms.push_back(*std::ranges::min_element(times));
  cost.pass_bytes.push_back(static_cast<double>(bench.arena.used()));
}

/// Reads tokens up to the longest length; those just before each length are timed together, as a single one takes less
/// than the clock tells.
void measure_steps(Bench& bench, const CostPlan& plan, LayerCost& cost) {
  LayerState state = bench.layer->make_state(*bench.backend, DType::f32, 1);
  std::int64_t read = 0;
  const auto read_on = [&](std::int64_t until) {
    for (; read < until; ++read) {
      bench.tape.begin(false);
      bench.layer->step(bench.tape, bench.token(read), state);
    }
  };
  for (const std::int64_t tokens : plan.tokens) {
    const std::int64_t timed = std::min(timed_tokens, tokens - read);
    read_on(tokens - timed);
    const double start = processor_ms();
    read_on(tokens);
    cost.step_ms.push_back((processor_ms() - start) / static_cast<double>(timed));
    cost.state_bytes.push_back(static_cast<double>(state.bytes()));
  }
}

}  // namespace

CostView layer_costs(const CostPlan& plan, const StudyProgress& progress) {
  CostView view{plan.width, {}};
  for (const Measured& measured : layers) {
    json config = json::parse(measured.config);
    LayerCost cost{measured.name, config.at("kind"), {}, {}, {}, {}, {}, measured.pass_growth, measured.step_growth};
    config.erase("kind");
    cost.tokens.assign(plan.tokens.begin(), plan.tokens.end());
    for (const std::int64_t tokens : plan.tokens) {
      if (!plan.measures_passes) break;
      Bench bench(cost.kind, config, tokens, plan.width);
      measure_pass(bench, cost);
    }
    if (plan.measures_steps) {
      Bench bench(cost.kind, config, distinct_tokens, plan.width);
      measure_steps(bench, plan, cost);
    }
    view.layers.push_back(std::move(cost));
    progress(static_cast<double>(view.layers.size()) / std::size(layers));
  }
  return view;
}

}  // namespace afterglow
