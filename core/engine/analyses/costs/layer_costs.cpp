// Passes over whole sequences, and one long sequence token by token.
#include "core/engine/analyses/costs/layer_costs.h"

#include <algorithm>
#include <ctime>
#include <span>
#include <string>

#include "core/backend/arena.h"
#include "core/engine/analyses/requested_study.h"
#include "core/io/json.h"
#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"
#include "core/random/random.h"

namespace afterglow {
namespace {

constexpr std::size_t repeats = 5;
constexpr std::int64_t timed_tokens = 32, distinct_tokens = 251;

struct Measured {
  const char *name, *config;
  double pass_growth, step_growth;  ///< exponents of T, table 1
};
constexpr Measured layers[] = {
    {"attention, RoPE", R"({"kind": "attention", "n_heads": 4})", 2, 1},
    {"Mamba-2", R"({"kind": "mamba2", "d_state": 16, "expand": 2, "headdim": 64})", 1, 0},
    {"SKA", R"({"kind": "ska", "H": 4, "r": 24, "P": 32, "K": 2, "mode": "chunk", "chunk": 64})", 1, 0}};

/// A layer with weights, gradients and a tape.
struct Bench {
  Bench(const char* text, std::int64_t tokens, std::int64_t width)
      : backend(make_cpu_backend(1)), arena(*backend), tape(*backend, arena), shape{1, tokens, width} {
    json config = json::parse(text);
    const LayerKind& kind = *find_layer_kind(config.at("kind").get<std::string>());
    config.erase("kind");
    config[kind.width_field] = width;
    layer = make_layer(kind.name, config, ParameterScope(store, "layer"));
    store.allocate(*backend, DType::f32);
    store.initialise(7);
    Random random(7);
    for (std::int64_t i = 0; i < tokens * width; ++i) x.push_back(random.normal());
  }
  /// The whole sequence, or one of its tokens in turn; equal tokens would give a singular operator.
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

/// Processor time of this thread, which runs the back end; other load on the machine matters little.
double processor_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

}  // namespace

struct CostMeasurement::Pass : Bench {
  using Bench::Bench;
  std::vector<double> times;

  void run() {
    tape.begin(true);
    const Var in = input();
    const double start = processor_ms();
    const Var y = layer->forward(tape, in, {});
    tape.backward(y, filled(tape, y.shape(), DType::f32, 1.0).value);
    times.push_back(processor_ms() - start);
  }
};

struct CostMeasurement::Steps : Bench {
  using Bench::Bench;
  LayerState state = layer->make_state(*backend, DType::f32, 1);
  std::int64_t read = 0;

  void read_on(std::int64_t until) {
    for (; read < until; ++read) {
      tape.begin(false);
      layer->step(tape, token(read), state);
    }
  }
};

CostMeasurement::CostMeasurement(CostPlan plan) : plan_(std::move(plan)), reading_(std::size(layers)) {
  now_.width = plan_.width;
  for (const Measured& layer : layers) {
    now_.layers.push_back(
        {layer.name, json::parse(layer.config).at("kind"), {}, {}, {}, {}, {}, layer.pass_growth, layer.step_growth});
    now_.layers.back().tokens.assign(plan_.tokens.begin(), plan_.tokens.end());
  }
  for (std::size_t place = 0; place < plan_.tokens.size(); ++place) {
    for (std::size_t layer = 0; layer < std::size(layers); ++layer) {
      if (plan_.measures_passes) works_.push_back({layer, place, true});
      if (plan_.measures_steps) works_.push_back({layer, place, false});
    }
  }
  view_ = std::make_shared<const CostView>(now_);
}

CostMeasurement::~CostMeasurement() = default;

double CostMeasurement::share_done() const {
  return works_.empty() ? 1.0 : static_cast<double>(next_) / static_cast<double>(works_.size());
}

bool CostMeasurement::advance() {
  if (is_complete()) return false;
  const Work& work = works_[next_];
  if (work.is_pass ? pass_again(work) : read_on(work)) return true;
  ++next_;
  view_ = std::make_shared<const CostView>(now_);
  return !is_complete();
}

/// False after enough passes.
bool CostMeasurement::pass_again(const Work& work) {
  if (!pass_) pass_ = std::make_unique<Pass>(layers[work.layer].config, plan_.tokens[work.place], plan_.width);
  pass_->run();
  if (pass_->times.size() <= repeats) return true;
  LayerCost& cost = now_.layers[work.layer];
  cost.pass_ms.push_back(*std::min_element(pass_->times.begin() + 1, pass_->times.end()));  // the first one allocates
  cost.pass_bytes.push_back(static_cast<double>(pass_->arena.used()));
  pass_.reset();
  return false;
}

/// False once the length is reached. The tokens before it are timed together, because one takes less than the clock's
/// resolution.
bool CostMeasurement::read_on(const Work& work) {
  std::unique_ptr<Steps>& steps = reading_[work.layer];
  if (!steps) steps = std::make_unique<Steps>(layers[work.layer].config, distinct_tokens, plan_.width);
  const std::int64_t tokens = plan_.tokens[work.place], timed = std::min(timed_tokens, tokens - steps->read);
  if (steps->read < tokens - timed) {
    steps->read_on(std::min(tokens - timed, steps->read + timed_tokens));
    return true;
  }
  const double start = processor_ms();
  steps->read_on(tokens);
  LayerCost& cost = now_.layers[work.layer];
  cost.step_ms.push_back((processor_ms() - start) / static_cast<double>(timed));
  cost.state_bytes.push_back(static_cast<double>(steps->state.bytes()));
  if (work.place + 1 == plan_.tokens.size()) steps.reset();
  return false;
}

CostView layer_costs(const CostPlan& plan, const std::function<void(double)>& progress) {
  CostMeasurement measurement(plan);
  while (measurement.advance()) progress(measurement.share_done());
  progress(1);
  return *measurement.view();
}

namespace {

/// Costs of mixers on this machine: measured once, independent of the run.
class CostAnalysis final : public UntiedAnalysis {
 public:
  using UntiedAnalysis::UntiedAnalysis;
  AnalysisState state() const override { return study_state(measurement_, has_news_); }
  void advance(Budget) override {
    const std::shared_ptr<const CostView> before = measurement_.view();
    measurement_.advance();
    has_news_ = measurement_.view() != before;
  }
  void publish(AnalysisResults& results) const override { results.costs = measurement_.view(); }

 private:
  CostMeasurement measurement_;
};

}  // namespace

AnalysisInfo costs_row() { return {{}, Analysis::costs, "costs", make_of_any<CostAnalysis>}; }

}  // namespace afterglow
