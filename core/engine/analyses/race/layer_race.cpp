// Layers with initial or trained weights, one after the other.
#include "core/engine/analyses/race/layer_race.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/analysis/influence/influence.h"
#include "core/engine/analyses/influence/influence_measurement.h"
#include "core/engine/analyses/measured_analysis.h"
#include "core/engine/session/analysis_table.h"
#include "core/engine/training/pinned_array.h"
#include "core/io/named.h"
#include "core/layers/host_values.h"
#include "core/random/random.h"

namespace afterglow {
namespace {

constexpr int recall_lags_in_a_decade = 4;
constexpr int tokens_at_once = 32;             // steps in one piece of work
constexpr std::size_t timed_last_tokens = 24;  // the last ones
constexpr std::int64_t max_shown_cells = 48;   // rows and columns of a state that are shown

std::vector<JacobianPlan::Block> blocks_of(const RaceConfig& config) {
  return influence_blocks(std::vector<int>{std::min(config.source, config.tokens - 1)}, config.tokens,
                          config.per_decade);
}

/// For a source closer to the start than the phrase is long, the phrase starts at token 0.
RecallPlan recall_of(const RaceConfig& config) {
  RecallPlan recall;
  recall.source = std::max(config.source, phrase_tokens - 1);
  recall.lags = spread_lags(config.tokens - 1 - recall.source, recall_lags_in_a_decade);
  std::erase_if(recall.lags, [](int lag) { return lag < phrase_tokens; });
  return recall;
}

double median_of_last(std::vector<double> times) {
  times.erase(times.begin(), times.end() - static_cast<std::ptrdiff_t>(std::min(times.size(), timed_last_tokens)));
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

void show_state(RaceEntry& entry, Backend& backend, const LayerState& state) {
  const auto larger = [](const auto& a, const auto& b) { return a.second.elements() < b.second.elements(); };
  const auto& [name, tensor] = *std::ranges::max_element(state.tensors(), larger);
  const std::int64_t rows = tensor.shape.rows(), columns = tensor.shape.last();
  const std::vector<double> values = to_host(backend, tensor);
  entry.state_name = name + " · " + std::to_string(rows) + " × " + std::to_string(columns);
  entry.state_rows = static_cast<int>(std::min(rows, max_shown_cells));
  entry.state_columns = static_cast<int>(std::min(columns, max_shown_cells));
  entry.state.assign(static_cast<std::size_t>(entry.state_rows * entry.state_columns), 0.0f);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int64_t row = r * entry.state_rows / rows, column = c * entry.state_columns / columns;
      float& cell = entry.state[static_cast<std::size_t>(row * entry.state_columns + column)];
      const auto value = static_cast<float>(values[static_cast<std::size_t>(r * columns + c)]);
      if (!(std::abs(value) <= std::abs(cell))) cell = value;
    }
  }
}

/// Zero projections, with which a block starts as the identity, would hide all memory.
std::string draw_silent_matrices(ParameterStore& store, std::uint64_t seed) {
  std::string drawn;
  for (const Parameter& parameter : store.all()) {
    if (parameter.shape.rank() < 2) continue;
    std::vector<double> values = store.download(parameter.value);
    if (std::ranges::any_of(values, [](double v) { return v != 0; })) continue;
    Random random(seed, weights_stream, static_cast<std::uint64_t>(parameter.index));
    fan_in_uniform().fill(random, parameter.shape, values);
    store.upload(parameter, values);
    drawn += (drawn.empty() ? "" : ", ") + parameter.name;
  }
  return drawn.empty() ? "" : drawn + " starts at zero and was drawn at random";
}

}  // namespace

/// The measurements of one layer, in their order.
struct LayerRace::Candidate {
  enum class Stage { tail, steps, recall, arrived, left_out };
  Stage stage = Stage::tail;
  RaceEntry entry;
  std::unique_ptr<ParameterStore> store;  // of initial weights
  std::unique_ptr<Layer> own;
  Layer* layer = nullptr;
  std::unique_ptr<JacobianMeasure> measure;
  std::unique_ptr<PlantedRecall> recall;
  std::optional<LayerState> state;  // after the tokens so far; kept, so that memory does not change after the end
  std::vector<double> step_times;   // ms, one for each token; 0 if not measured
};

RaceWork race_work_of_a_layer(const RaceConfig& config) {
  RaceWork work;
  for (const JacobianPlan::Block& block : blocks_of(config))
    work.tail += reverse * config.directions * (block.query + 1);
  work.steps = config.tokens;
  const RecallPlan recall = recall_of(config);
  for (const int lag : recall.lags) work.recall += recall_contexts * planted_tokens * (recall.source + lag + 1);
  return work;
}

std::vector<std::string> kinds_that_race_first() {
  std::map<int, std::string> places;
  for (const LayerKind& kind : layer_kinds()) {
    if (kind.race_place > 0) places.emplace(kind.race_place, kind.name);
  }
  return names_of(places, [](const auto& one) { return one.second; });
}

LayerRace::LayerRace(const RaceConfig& config, std::int64_t width, std::uint64_t seed, Tape& tape, DType dtype)
    : config_(config),
      width_(width),
      seed_(seed),
      dtype_(dtype),
      tape_(tape),
      tokens_(std::make_unique<PinnedArray>(tape.backend(), Shape{config.tokens, width}, dtype)),
      noise_(seed, static_cast<int>(width), config.tokens) {
  Random random(seed, race_input_stream);
  for (std::int64_t i = 0; i < config.tokens * width; ++i) input_.push_back(random.normal());
  tokens_->put(input_);
  tokens_->queue_upload();
}

LayerRace::~LayerRace() = default;

void LayerRace::enter_initial(const std::vector<std::string>& kinds) {
  config_.kinds = kinds;
  ++revision_;
  std::deque<Candidate> before;
  before.swap(contestants_);
  for (const LayerKind& kind : layer_kinds()) {
    if (!kind.mixes_tokens || (!kinds.empty() && std::ranges::find(kinds, kind.name) == kinds.end())) continue;
    const auto there =
        std::ranges::find_if(before, [&](const Candidate& c) { return c.own && c.own->kind() == kind.name; });
    if (there == before.end()) {
      enter(kind);
    } else {
      contestants_.push_back(std::move(*there));
    }
  }
}

void LayerRace::enter(const LayerKind& kind) {
  Candidate& fresh = contestants_.emplace_back();
  fresh.store = std::make_unique<ParameterStore>();
  fresh.own = make_layer(kind.name, small_layer_config(kind, width_), ParameterScope(*fresh.store, kind.name));
  fresh.store->allocate_values(tape_.backend(), dtype_);
  fresh.store->initialise(seed_);
  fresh.entry.note = draw_silent_matrices(*fresh.store, seed_);
  fresh.layer = fresh.own.get();
  fresh.entry.tail.label = fresh.entry.tail.kind = kind.name;
  fresh.entry.weights = "initial";
}

void LayerRace::enter_trained(Layer& layer, const std::string& label, const std::string& weights) {
  Candidate& trained = contestants_.emplace_back();
  trained.layer = &layer;
  trained.entry.tail.kind = layer.kind();
  trained.entry.tail.label = label;
  trained.entry.weights = weights;
}

void LayerRace::forget_trained() {
  ++revision_;
  std::erase_if(contestants_, [](const Candidate& c) { return !c.own; });
}

JacobianPlan LayerRace::plan(const Layer& layer) const {
  JacobianPlan plan;
  plan.blocks = blocks_of(config_);
  plan.directions = config_.directions;
  plan.causal = layer.is_causal();
  plan.seed = seed_;
  plan.tokens_at_once = tokens_in_a_pass(tape_.backend());
  return plan;
}

/// Sends the next tokens through the recurrent form. Synchronises only for the last ones, which are timed.
void LayerRace::advance_steps(Candidate& c) {
  using Clock = std::chrono::steady_clock;
  Backend& backend = tape_.backend();
  if (!c.state) c.state.emplace(c.layer->make_state(backend, dtype_, 1));
  const auto tokens = static_cast<std::size_t>(config_.tokens);
  for (int i = 0; i < tokens_at_once && c.step_times.size() < tokens; ++i) {
    const bool is_timed = c.step_times.size() + timed_last_tokens >= tokens;
    const Tensor token = tokens_->device().at(static_cast<std::int64_t>(c.step_times.size()));
    tape_.begin(false);
    const Var x = tape_.constant(token.reshaped({1, 1, width_}));
    if (is_timed) backend.synchronize();
    const Clock::time_point start = Clock::now();
    c.layer->step(tape_, x, *c.state);
    if (is_timed) backend.synchronize();
    c.step_times.push_back(is_timed ? 1e3 * std::chrono::duration<double>(Clock::now() - start).count() : 0.0);
  }
  if (c.step_times.size() < tokens) return;
  show_state(c.entry, backend, *c.state);
  c.entry.state_bytes = c.layer->state_bytes(DType::f32, config_.tokens);
  c.entry.step_ms = median_of_last(c.step_times);
  c.stage = Candidate::Stage::recall;
  ++revision_;
}

void LayerRace::advance_tail(Candidate& c, const SequenceMap& map) {
  if (!c.measure)
    c.measure = std::make_unique<JacobianMeasure>(
        tape_, dtype_, input_, std::vector<std::uint8_t>(static_cast<std::size_t>(config_.tokens), 1), map,
        plan(*c.layer));
  if (c.measure->advance()) return;
  fill_tail(c.entry.tail, plan(*c.layer).blocks, c.measure->norms());
  c.measure.reset();
  c.stage = Candidate::Stage::steps;
}

void LayerRace::advance_recall(Candidate& c, const SequenceMap& map) {
  if (!c.recall) {
    RecallPlan recall = recall_of(config_);
    recall.tokens_at_once = tokens_in_a_pass(tape_.backend());
    c.recall = std::make_unique<PlantedRecall>(tape_, dtype_, noise_, map, std::move(recall));
  }
  const bool goes_on = c.recall->advance();
  if (c.recall->shares().size() != c.entry.recall.size()) {
    c.entry.recall = c.recall->shares();
    c.entry.recall_lags = c.recall->lags();
    ++revision_;
  }
  if (goes_on) return;
  c.recall.reset();
  c.stage = Candidate::Stage::arrived;
}

bool LayerRace::advance() {
  using Stage = Candidate::Stage;
  auto next = std::ranges::find_if(
      contestants_, [](const Candidate& c) { return c.stage == Stage::tail || c.stage == Stage::steps; });
  if (next == contestants_.end())
    next = std::ranges::find_if(contestants_, [](const Candidate& c) { return c.stage == Stage::recall; });
  if (next == contestants_.end()) return false;
  try {
    advance(*next);
  } catch (const Error& error) {
    if (!next->own || error.code() != ExitCode::failure) throw;
    next->stage = Stage::left_out;  // this device's kernels do not support the size
    next->measure.reset();
    next->recall.reset();
    ++revision_;
  }
  return true;
}

void LayerRace::advance(Candidate& c) {
  using Stage = Candidate::Stage;
  Layer& layer = *c.layer;
  const SequenceMap map = [&layer](Tape& tape, const Var& x, const Tensor& mask) {
    return layer.forward(tape, x, mask);
  };
  if (c.stage == Stage::tail) {
    advance_tail(c, map);
  } else if (c.stage == Stage::steps) {
    advance_steps(c);
  } else {
    advance_recall(c, map);
  }
}

double LayerRace::share_done() const {
  using Stage = Candidate::Stage;
  const RaceWork work = race_work_of_a_layer(config_);
  const double first = work.tail + work.steps, all = first + work.recall;
  double done = 0;
  for (const Candidate& c : contestants_) {
    if (c.stage == Stage::arrived || c.stage == Stage::left_out) done += all;
    if (c.stage == Stage::recall)
      done += first + work.recall * static_cast<double>(c.entry.recall.size()) /
                          static_cast<double>(std::max<std::size_t>(1, recall_of(config_).lags.size()));
  }
  return contestants_.empty() ? 1 : done / (all * static_cast<double>(contestants_.size()));
}

RaceView LayerRace::view() const {
  RaceView view;
  view.tokens = config_.tokens;
  view.width = static_cast<int>(width_);
  view.source = config_.source;
  view.seed = seed_;
  for (const LayerKind& kind : layer_kinds()) {
    if (kind.mixes_tokens) view.kinds.push_back(kind.name);
  }
  for (const Candidate& c : contestants_) {
    if (c.stage == Candidate::Stage::recall || c.stage == Candidate::Stage::arrived) view.entries.push_back(c.entry);
    if (c.stage == Candidate::Stage::left_out) view.left_out.push_back(c.entry.tail.label);
  }
  view.contestants = static_cast<int>(contestants_.size() - view.left_out.size());
  const auto last = [](const RaceEntry& e) {
    return e.tail.values.empty() ? 0.0 : e.tail.values.back() / e.tail.values.front();
  };
  std::ranges::stable_sort(view.entries, [&](const RaceEntry& a, const RaceEntry& b) {
    const double x = std::isnan(a.tail.one_percent_lag) ? 0 : a.tail.one_percent_lag;
    const double y = std::isnan(b.tail.one_percent_lag) ? 0 : b.tail.one_percent_lag;
    return x != y ? x > y : last(a) > last(b);
  });
  return view;
}

void RaceMeasurement::begin(const RaceConfig& config, bool is_part) {
  copy_.take();
  RaceConfig same_kinds = config;
  if (race_) same_kinds.kinds = race_->config().kinds;
  const bool is_changed = !race_ || race_->config() != config;
  if (!race_ || race_->config() != same_kinds) {
    Trainer& trainer = copy_.trainer();
    race_ = std::make_unique<LayerRace>(config, copy_.model().width(), trainer.seed(), tape_, trainer.dtype());
  }
  race_->forget_trained();
  if (is_changed) race_->enter_initial(config.kinds);
  shows_parts_ = shows_parts_ || is_changed || is_part;
  if (copy_.step() > 0) enter_trained();
  if (!newest() || is_part) show(false);
  working_ = true;
}

void RaceMeasurement::enter_trained() {
  for (const ModelPart& part : copy_.trainer().parts()) {
    if (part.branch < 0 || !mixes_tokens(part.kind)) continue;
    race_->enter_trained(*copy_.model().branches()[static_cast<std::size_t>(part.branch)].layer, part.label,
                         "trained, step " + std::to_string(copy_.step()));
  }
}

void RaceMeasurement::show(bool is_complete) {
  now_ = race_->view();
  now_.step = copy_.step();
  now_.is_complete = is_complete;
  publish();
  shown_ = race_->revision();
}

bool RaceMeasurement::advance() {
  if (!working_) return false;
  if (race_->advance()) {
    if (shows_parts_ && race_->revision() != shown_) show(false);
    return true;
  }
  show(true);
  shows_parts_ = working_ = false;
  return false;
}

AnalysisInfo race_row() {
  constexpr auto begin = [](auto& measurement, const AnalysisSubject& of) {
    measurement.begin(of.chosen<InfluenceConfig>().race, of.part_of(Analysis::race) < 1);
  };
  // The race's layers have the model's width; each is about as large as one of its layers.
  const auto work = [](const AnalysisSubject& subject) -> ModelWork {
    const RaceConfig& config = subject.chosen<InfluenceConfig>().race;
    const auto mixes = [](const auto& part) { return part.branch >= 0 && mixes_tokens(part.kind); };
    auto layers = static_cast<double>(config.kinds.size());
    if (config.kinds.empty())
      layers = static_cast<double>(std::ranges::count_if(layer_kinds(), &LayerKind::mixes_tokens));
    if (subject.step() > 0) layers += static_cast<double>(std::ranges::count_if(subject.run->trainer().parts(), mixes));
    const RaceWork one = race_work_of_a_layer(config);
    const double share = layers / branches_of(subject), tokens = one.tail + one.recall;
    const double first = (one.tail + passes_of_a_step * one.steps) / (tokens + passes_of_a_step * one.steps);
    return {share * tokens, share * one.steps, first / std::max(1.0, layers)};
  };
  using Form = MeasuredAnalysis<RaceMeasurement, Analysis::race, begin, &AnalysisResults::race>;
  return {{}, Analysis::race, "race", make_of_tokens<Form>, work};
}

}  // namespace afterglow
