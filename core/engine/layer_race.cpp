// Layers at their initial or trained weights, one after the other.
#include "core/engine/layer_race.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/engine/influence_tail.h"
#include "core/layers/host_probe.h"
#include "core/layers/ska.h"
#include "core/random/random.h"

namespace afterglow {

namespace {

/// Projections that start at zero, so that a block begins as the identity, would hide all memory.
std::string draw_silent_matrices(ParameterStore& store, std::uint64_t seed) {
  std::string drawn;
  for (const Parameter& parameter : store.all()) {
    if (parameter.shape.rank() < 2) continue;
    std::vector<double> values = store.download(parameter.value);
    if (std::any_of(values.begin(), values.end(), [](double v) { return v != 0; })) continue;
    Random random(seed, weights_stream, static_cast<std::uint64_t>(parameter.index));
    fan_in_uniform()(random, parameter.shape, values);
    store.upload(parameter, values);
    drawn += (drawn.empty() ? "" : ", ") + parameter.name;
  }
  return drawn.empty() ? "" : drawn + " starts at zero and was drawn at random";
}

}  // namespace

struct LayerRace::Contestant {
  RaceEntry entry;
  std::unique_ptr<ParameterStore> store;  // of initial weights
  std::unique_ptr<Layer> own;
  Layer* layer = nullptr;
  std::unique_ptr<JacobianMeasure> measure;
  bool has_arrived = false;
};

bool is_causal(const Layer& layer) {
  if (layer.kind() != "ska") return true;
  const RidgeConfig& core = static_cast<const Ska&>(layer).config().core;
  using Mode = RidgeConfig::Mode;
  return core.mode == Mode::recurrent || (core.mode == Mode::chunk && core.norm == RidgeConfig::Norm::prefix);
}

bool mixes_tokens(std::string_view kind) {
  const std::vector<LayerKind>& kinds = layer_kinds();
  return std::any_of(kinds.begin(), kinds.end(), [&](const LayerKind& k) { return k.name == kind && k.mixes_tokens; });
}

nlohmann::json race_layer_config(std::string_view kind, std::int64_t width) {
  const std::int64_t head = width % 16 == 0 ? 16 : width, heads = width / head;
  if (kind == "ska") return {{"d", width}, {"H", heads}, {"r", head}, {"P", head}, {"K", 2}, {"mode", "recurrent"}};
  if (kind == "mamba2" || kind == "mamba3")
    return {{"d_model", width}, {"d_state", 16}, {"expand", 2}, {"headdim", head}};
  if (kind == "sessa") return {{"D", width}, {"n_heads", heads}};
  if (kind == "gka") return {{"hidden_size", width}, {"head_dim", head}, {"num_heads", heads}};
  for (const char* plain : {"attention", "linear_attention"}) {
    if (kind == plain) return {{"d", width}, {"n_heads", heads}};
  }
  for (const char* rule : {"gla", "deltanet", "gated_deltanet", "kalman"}) {
    if (kind == rule) return {{"d", width}, {"H", heads}};
  }
  return nullptr;
}

LayerRace::LayerRace(const RaceConfig& config, std::int64_t width, std::uint64_t seed, Backend& backend, DType dtype)
    : config_(config), width_(width), seed_(seed), dtype_(dtype), arena_(backend), tape_(backend, arena_) {
  Random random(seed, race_input_stream);
  for (std::int64_t i = 0; i < config.tokens * width; ++i) input_.push_back(random.normal());
}

LayerRace::~LayerRace() = default;

void LayerRace::enter_initial() {
  for (const LayerKind& kind : layer_kinds()) {
    const auto& wanted = config_.kinds;
    if (!kind.mixes_tokens || (!wanted.empty() && std::find(wanted.begin(), wanted.end(), kind.name) == wanted.end()))
      continue;
    const nlohmann::json config = race_layer_config(kind.name, width_);
    if (config.is_null()) continue;
    Contestant& fresh = contestants_.emplace_back();
    fresh.store = std::make_unique<ParameterStore>();
    fresh.own = kind.make(config, ParameterScope(*fresh.store, kind.name));
    fresh.store->allocate_values(tape_.backend(), dtype_);
    fresh.store->initialise(seed_);
    fresh.entry.note = draw_silent_matrices(*fresh.store, seed_);
    fresh.layer = fresh.own.get();
    fresh.entry.tail.label = fresh.entry.tail.kind = kind.name;
    fresh.entry.weights = "initial";
  }
}

void LayerRace::enter_trained(Layer& layer, const std::string& label, const std::string& weights) {
  Contestant& trained = contestants_.emplace_back();
  trained.layer = &layer;
  trained.entry.tail.kind = layer.kind();
  trained.entry.tail.label = label;
  trained.entry.weights = weights;
}

void LayerRace::forget_trained() {
  std::erase_if(contestants_, [](const Contestant& c) { return !c.own; });
}

JacobianPlan LayerRace::plan(const Layer& layer) const {
  JacobianPlan plan;
  plan.blocks = influence_blocks(std::vector<int>{std::min(config_.source, config_.tokens - 1)}, config_.tokens,
                                 config_.per_decade);
  plan.directions = config_.directions;
  plan.causal = is_causal(layer);
  plan.seed = seed_;
  plan.tokens_at_once = tokens_in_a_pass(tape_.backend());
  return plan;
}

double LayerRace::step_milliseconds(Layer& layer) {
  constexpr int steps = 24;
  using Clock = std::chrono::steady_clock;
  LayerState state = layer.make_state(tape_.backend(), dtype_, 1);
  std::vector<double> times;
  for (int t = 0; t < std::min(steps, config_.tokens); ++t) {
    tape_.begin(false);
    const std::span<const double> token(input_.data() + t * width_, static_cast<std::size_t>(width_));
    const Var x = tape_.constant(to_device(tape_, {1, 1, width_}, dtype_, token));
    tape_.backend().synchronize();
    const Clock::time_point start = Clock::now();
    layer.step(tape_, x, state);
    tape_.backend().synchronize();
    times.push_back(1e3 * std::chrono::duration<double>(Clock::now() - start).count());
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

bool LayerRace::advance() {
  for (Contestant& c : contestants_) {
    if (c.has_arrived) continue;
    if (!c.measure) {
      Layer& layer = *c.layer;
      c.measure = std::make_unique<JacobianMeasure>(
          tape_, dtype_, input_, std::vector<std::uint8_t>(static_cast<std::size_t>(config_.tokens), 1),
          [&layer](Tape& tape, const Var& x, const Tensor& mask) { return layer.forward(tape, x, mask); }, plan(layer));
    }
    if (c.measure->advance()) return true;
    fill_tail(c.entry.tail, plan(*c.layer).blocks, c.measure->norms());
    c.measure.reset();
    c.entry.state_bytes = c.layer->state_bytes(DType::f32, config_.tokens);
    c.entry.step_ms = step_milliseconds(*c.layer);
    c.has_arrived = true;
    return true;
  }
  return false;
}

RaceView LayerRace::view() const {
  RaceView view;
  view.tokens = config_.tokens;
  view.width = static_cast<int>(width_);
  view.source = config_.source;
  view.seed = seed_;
  for (const Contestant& c : contestants_) {
    if (c.has_arrived) view.entries.push_back(c.entry);
  }
  const auto last = [](const RaceEntry& e) {
    return e.tail.values.empty() ? 0.0 : e.tail.values.back() / e.tail.values.front();
  };
  std::stable_sort(view.entries.begin(), view.entries.end(), [&](const RaceEntry& a, const RaceEntry& b) {
    const double x = std::isnan(a.tail.one_percent_lag) ? 0 : a.tail.one_percent_lag;
    const double y = std::isnan(b.tail.one_percent_lag) ? 0 : b.tail.one_percent_lag;
    return x != y ? x > y : last(a) > last(b);
  });
  return view;
}

}  // namespace afterglow
