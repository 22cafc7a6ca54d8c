// Plans a measurement, works through it pass by pass, and fills the view.
#include "core/engine/analyses/influence/influence_measurement.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "core/analysis/influence/influence.h"
#include "core/engine/analyses/measured_analysis.h"
#include "core/engine/inspection/layer_readings.h"
#include "core/engine/observation/influence_theory.h"
#include "core/engine/session/analysis_table.h"
#include "core/engine/training/inspected_example.h"
#include "core/io/json_file.h"
#include "core/io/named.h"
#include "core/layers/capture_reader.h"
#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"

namespace afterglow {
namespace {

constexpr int max_hops = 24, followed_hops = 4;

/// The mean spread of the heads [heads*T*T], and the largest c2.
void read_softmax(RoutingView& view, const std::vector<double>& alpha, int heads, bool strict) {
  const auto square = static_cast<std::size_t>(view.tokens) * static_cast<std::size_t>(view.tokens);
  view.logit_spread.assign(static_cast<std::size_t>(view.tokens), 0.0);
  view.effective = view.logit_spread;
  for (int head = 0; head < heads; ++head) {
    const RoutingSpread spread = routing_spread(std::span(alpha).subspan(head * square, square), view.tokens, strict);
    for (std::size_t t = 0; t < spread.effective.size(); ++t) {
      view.logit_spread[t] += spread.logit_spread[t] / heads;
      view.effective[t] += spread.effective[t] / heads;
    }
    view.c2 = std::max(view.c2, spread.c2);
  }
}

/// Columns 0 of B, B^2, .. and of the resolvent.
void read_hop_profiles(RoutingView& view, std::span<const double> B, std::span<const double> R) {
  const int T = view.tokens, hops = std::min(followed_hops, T - 1);
  const std::vector<double> columns = hop_profiles(B, T, 0, hops);
  for (int k = 1; k <= hops; ++k)
    view.hop_profiles.emplace_back(columns.begin() + std::ptrdiff_t{k} * T,
                                   columns.begin() + std::ptrdiff_t{k + 1} * T);
  std::vector<double>& all = view.hop_profiles.emplace_back();
  for (int t = 0; t < T; ++t) all.push_back(R[static_cast<std::size_t>(t) * static_cast<std::size_t>(T)]);
}

void read_feedback(RoutingView& view, const std::vector<double>& alpha, const std::vector<double>& gain) {
  const int T = view.tokens;
  read_softmax(view, alpha, 1, true);
  view.gain = gain;
  std::vector<double> B(alpha.size());
  for (std::size_t i = 0; i < B.size(); ++i) B[i] = gain[i / static_cast<std::size_t>(T)] * alpha[i];
  const std::vector<double> R = resolvent(B, T);
  view.feedback.assign(alpha.begin(), alpha.end());
  view.resolvent.assign(R.begin(), R.end());
  read_hop_profiles(view, B, R);
  view.position_code = position_code(B, T);
  view.hop_masses = hop_masses(B, T, T - 1, std::min(T - 1, max_hops));
  const double shown = std::accumulate(view.hop_masses.begin(), view.hop_masses.end(), 0.0);
  view.hop_masses.push_back(view.position_code.back() - shown);  // the code's last value is the mass of all hops
}

/// Per-token factors from the running sum of their logarithms [T*heads].
void read_decay(RoutingView& view, const std::vector<double>& sums) {
  const std::size_t T = static_cast<std::size_t>(view.tokens), heads = sums.size() / T;
  double total = 0;
  for (std::size_t h = 0; h < heads; ++h) {
    std::vector<double>& of_head = view.accumulated.emplace_back();
    for (std::size_t t = 0; t < T; ++t) of_head.push_back(sums[h] - sums[t * heads + h]);
  }
  for (std::size_t t = 0; t < T; ++t) {
    double mean = 0;
    for (std::size_t h = 0; h < heads; ++h)
      mean += (sums[t * heads + h] - (t > 0 ? sums[(t - 1) * heads + h] : 0.0)) / static_cast<double>(heads);
    view.decay.push_back(std::exp(mean));
    if (t > 0) total -= mean;
  }
  view.min_accumulated = min_accumulated(view);
  view.largest_factor = largest_factor(view);
  view.mean_rate = T > 1 ? total / static_cast<double>(T - 1) : 0.0;
}

double mean_of(const std::vector<double>& values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return values.empty() ? 0.0 : sum / static_cast<double>(values.size());
}

/// Token weights, spread of a softmax, Sessa's feedback, the decay of a state: whatever the part captures. T is the
/// size of `context`.
RoutingView routing_of(Trainer& trainer, int part, const CaptureReader& read, std::span<const std::uint8_t> context) {
  const ModelPart& info = trainer.parts()[static_cast<std::size_t>(part)];
  RoutingView view;
  view.layer = part;
  view.kind = info.kind;
  view.tokens = static_cast<int>(context.size());
  view.weights = layer_weights(trainer, part, read, context);
  std::erase_if(view.weights, [](const std::vector<float>& head) { return head.empty(); });
  const auto T = static_cast<std::size_t>(view.tokens);
  const std::vector<double>& attention = read.values(info.scope + ".attn");
  const std::vector<double>& feedback = read.values(info.scope + ".alpha_fb");
  const std::vector<double>& gain = read.values(info.scope + ".gamma");
  const std::vector<double>& decay = read.values(info.scope + ".log_decay_cumsum");
  if (feedback.size() == T * T && gain.size() == T) {
    read_feedback(view, feedback, gain);
  } else if (!attention.empty() && attention.size() % (T * T) == 0) {
    read_softmax(view, attention, static_cast<int>(attention.size() / (T * T)), false);
  }
  if (!decay.empty() && decay.size() % T == 0) read_decay(view, decay);
  // Layers without time steps capture neither; Mamba-3 splits a step into an immediate and a delayed part.
  view.mean_step = mean_of(read.values(info.scope + ".dt")) + mean_of(read.values(info.scope + ".lag"));
  return view;
}

InfluenceTail tail_of(const Trainer& trainer, int part) {
  InfluenceTail tail;
  tail.label = trainer.parts()[part].label;
  tail.kind = trainer.parts()[part].kind;
  tail.layer = part;
  return tail;
}

/// Theorem 11 with the blocks' tails as kernels, assuming that tails of other sources are no larger.
std::vector<double> path_sum_of(const InfluenceView& view, const InfluenceTail& stack) {
  const int last = stack.lags.empty() ? 0 : static_cast<int>(stack.lags.back());
  double scale = 1;
  for (const InfluenceTail& block : view.between) scale *= block.own;
  const std::vector<double> sum = path_sum(mapped(view.blocks, [&](const InfluenceTail& block) {
    return at_every_lag({block.lags, block.values}, block.own, last);
  }));
  return mapped(stack.lags, [&](double lag) { return scale * sum[static_cast<std::size_t>(lag)]; });
}

RaceConfig read_race(const nlohmann::json& value, const RaceConfig& before) {
  RaceConfig config = read_fields_among({"kinds"}, value, before);
  get_integer(value, "source", 0, 0, config.tokens - 2, RaceConfig::command);
  config.source = std::min(config.source, config.tokens - 2);
  if (!value.contains("kinds")) return config;
  config.kinds.clear();
  for (const nlohmann::json& kind : value["kinds"]) {
    if (!kind.is_string() || !mixes_tokens(kind.get<std::string>())) {
      throw BadInput("influence.race.kinds: ", kind.dump(),
                     " is no layer that mixes tokens; `afterglow info` lists them");
    }
    config.kinds.push_back(kind.get<std::string>());
  }
  return config;
}

}  // namespace

InfluenceConfig parse_influence(const nlohmann::json& value, const InfluenceConfig& before) {
  InfluenceConfig config = read_fields_among({"race", "retrieval"}, value, before);
  get_integer(value, "source", -1, -1, config.tokens - 2, InfluenceConfig::command);
  if (value.contains("retrieval")) config.retrieval = parse_retrieval(value["retrieval"], config.retrieval);
  if (value.contains("race")) config.race = read_race(value["race"], config.race);
  return config;
}

nlohmann::json to_json(const InfluenceConfig& config) {
  nlohmann::json value = to_json<InfluenceConfig>(config);
  value["retrieval"] = to_json(config.retrieval);
  value["race"] = to_json(config.race);
  value["race"]["kinds"] = config.race.kinds;
  return value;
}

Example InfluenceMeasurement::sequence(std::uint64_t inspected) const {
  Example sequence;
  const auto wanted = static_cast<std::size_t>(config.tokens);
  while (sequence.tokens.size() < wanted) {
    const Example next = copy_.trainer().task().example(copy_.trainer().seed(), inspected++, Split::held_out);
    sequence.tokens.insert(sequence.tokens.end(), next.tokens.begin(), next.tokens.end());
    sequence.context.insert(sequence.context.end(), next.context.begin(), next.context.end());
  }
  sequence.tokens.resize(wanted);
  sequence.context.resize(wanted);
  return sequence;
}

std::vector<int> InfluenceMeasurement::sources() const {
  if (config.source >= 0) return {std::min(config.source, config.tokens - 1)};
  std::vector<int> sources;
  const int span = config.tokens / 8;
  for (int i = 0; i < config.averaged; ++i) {
    const int source = config.averaged > 1 ? i * span / (config.averaged - 1) : 0;
    if (sources.empty() || source > sources.back()) sources.push_back(source);
  }
  return sources;
}

void InfluenceMeasurement::begin(std::uint64_t inspected) {
  jobs_.clear();
  now_ = {};
  copy_.take();
  now_.step = copy_.step();
  now_.tokens = config.tokens;
  now_.sources = sources();
  now_.directions = config.directions >= copy_.model().width() ? 0 : config.directions;
  const Example chosen = sequence(inspected);
  read_routing(chosen);
  plan_blocks(chosen);
  begin_work(jobs_.size());
  show_part();
  working_ = true;
}

void InfluenceMeasurement::read_routing(const Example& sequence) {
  Trainer& trainer = copy_.trainer();
  Backend& backend = trainer.backend();
  tape_.begin(false);
  const auto [tokens, context] = uploaded(tape_, sequence);
  const Capturing capturing(tape_);
  trainer.model().forward(tape_, tokens, context);
  backend.synchronize();
  const auto& parts = trainer.parts();
  for (int part = 0; part < static_cast<int>(parts.size()); ++part) {
    if (!mixes_tokens(parts[part].kind)) continue;
    const CaptureReader read(tape_, backend);  // holds the captures of one part
    RoutingView routing = routing_of(trainer, part, read, sequence.context);
    if (!routing.weights.empty()) add_fixed_tail(part, routing.weights);
    if (!routing.resolvent.empty()) {
      add_fixed_tail(part, std::span(&routing.resolvent, 1));
      now_.fixed.back().label += ", feedback alone";
      now_.fixed.back().is_resolvent = true;
    }
    if (const auto forcing = readers_of(parts[part].kind).forcing)
      routing.forcing = forcing(captured_layer(trainer, part, read, config.tokens), now_.sources);
    if (const auto reach = readers_of(parts[part].kind).reach)
      routing.reach = reach(captured_layer(trainer, part, read, config.tokens));
    now_.routing.push_back(std::move(routing));
  }
}

// The norm before a branch: |∂ norm(x)/∂x| <= max |w| / rms(x), for the source's own token.
void InfluenceMeasurement::enter_norm(int part, const std::vector<double>& stream) {
  const auto branch = static_cast<std::size_t>(copy_.trainer().parts()[static_cast<std::size_t>(part)].branch);
  const Branch& own = copy_.model().branches()[branch];
  if (own.norm == nullptr) return;
  const Parameter* norm = own.plain_norm();
  if (norm == nullptr) {  // the bound does not hold for another branch
    for (RoutingView& routing : now_.routing)
      if (routing.layer == part) routing.forcing.clear();
    return;
  }
  double largest = 0;
  for (const double w : to_host(copy_.trainer().backend(), norm->value)) largest = std::max(largest, std::abs(w));
  const auto width = static_cast<std::size_t>(copy_.model().width());
  for (RoutingView& routing : now_.routing) {
    if (routing.layer != part) continue;
    for (SourceForcing& forcing : routing.forcing) {
      double squares = 0;
      for (std::size_t c = 0; c < width; ++c)
        squares += std::pow(stream[static_cast<std::size_t>(forcing.source) * width + c], 2);
      forcing.outlet *= largest / std::sqrt(squares / static_cast<double>(width));
    }
  }
}

void InfluenceMeasurement::add_fixed_tail(int part, std::span<const std::vector<float>> weights) {
  InfluenceTail tail = tail_of(copy_.trainer(), part);
  fill_tail(tail, weights, now_.sources, config.tokens, config.per_decade);
  now_.fixed.push_back(std::move(tail));
}

// One forward pass gives the stream before each mixer, at which its block's Jacobian is computed.
void InfluenceMeasurement::plan_blocks(const Example& sequence) {
  Backend& backend = copy_.trainer().backend();
  tape_.begin(false);
  const auto [tokens, context] = uploaded(tape_, sequence);
  const auto& parts = copy_.trainer().parts();
  const std::size_t branches = copy_.model().branches().size();
  Var x = copy_.model().embed(tape_, tokens);
  const std::vector<double> first = to_host(backend, x.value);
  std::vector<std::pair<int, std::vector<double>>> streams;  // part, and its input
  bool mixes = false;
  for (int part = 0; part < static_cast<int>(parts.size()); ++part) {
    if (parts[part].branch < 0) continue;
    streams.emplace_back(part, to_host(backend, x.value));
    mixes = mixes || mixes_tokens(parts[part].kind);
    const auto branch = static_cast<std::size_t>(parts[part].branch);
    x = copy_.model().forward_branches(tape_, x, context, branch, branch + 1);
  }
  for (auto& [part, stream] : streams) {
    const auto branch = static_cast<std::size_t>(parts[part].branch);
    enter_norm(part, stream);
    add_job(tail_of(copy_.trainer(), part), std::move(stream), sequence, branch, branch + 1);
  }
  InfluenceTail stack;
  stack.label = "whole stack";
  stack.kind = "stack";
  if (mixes) add_job(std::move(stack), first, sequence, 0, branches);
}

void InfluenceMeasurement::add_job(InfluenceTail tail, std::vector<double> x, const Example& sequence,
                                   std::size_t first, std::size_t last) {
  JacobianPlan plan;
  if (tail.layer < 0 || mixes_tokens(tail.kind))
    plan.blocks = influence_blocks(now_.sources, config.tokens, config.per_decade);
  for (const int source : now_.sources) plan.blocks.push_back({source, source});  // the last ones: lag 0
  plan.directions = config.directions;
  plan.seed = copy_.trainer().seed();
  plan.tokens_at_once = tokens_in_a_pass(copy_.trainer().backend());
  plan.branches = static_cast<int>(last - first);
  for (std::size_t i = first; i < last; ++i)
    plan.causal = plan.causal && copy_.model().branches()[i].layer->is_causal();
  Job job{std::move(tail), plan.blocks, nullptr};
  job.measure = std::make_unique<JacobianMeasure>(
      tape_, copy_.trainer().dtype(), std::move(x), sequence.context,
      [this, first, last](Tape& tape, const Var& in, const Tensor& mask) {
        return copy_.model().forward_branches(tape, in, mask, first, last);
      },
      std::move(plan));
  jobs_.push_back(std::move(job));
}

// During the first measurement every tail is shown once it is known.
void InfluenceMeasurement::show_part() {
  if (has_finished_) return;
  now_.deep = deep_.profiles();
  publish();
}

void InfluenceMeasurement::advance_job() {
  Job& job = jobs_.front();
  if (job.measure->advance()) return;
  const std::vector<NormEstimate> norms = job.measure->norms();
  const std::size_t later = norms.size() - now_.sources.size();
  job.tail.own = 0;
  for (const NormEstimate& norm : std::span(norms).subspan(later))
    job.tail.own += norm.value / static_cast<double>(now_.sources.size());
  fill_tail(job.tail, std::span(job.blocks).first(later), std::span(norms).first(later));
  if (job.tail.layer < 0) now_.path_sum = path_sum_of(now_, job.tail);
  (later > 0 ? now_.blocks : now_.between).push_back(std::move(job.tail));
  jobs_.pop_front();
  ++done_;
  show_part();
}

bool InfluenceMeasurement::advance_deep() {
  if (deep_.profiles()) return false;
  if (!deep_.advance()) show_part();
  return true;
}

bool InfluenceMeasurement::advance() {
  if (!working_) return false;
  if (!jobs_.empty()) {
    advance_job();
    return true;
  }
  if (advance_deep()) return true;
  now_.deep = deep_.profiles();
  now_.is_complete = true;
  publish();
  now_ = {};  // large in a long sequence
  has_finished_ = true;
  working_ = false;
  return false;
}

namespace {

AnalysisSet choose_influence(AnalysisSubject& subject, const nlohmann::json& value) {
  InfluenceConfig& now = subject.chosen<InfluenceConfig>();
  InfluenceConfig before = std::exchange(now, parse_influence(value, now));
  AnalysisSet changed = 0;
  if (now.race != std::exchange(before.race, now.race)) changed = changed | Analysis::race;
  if (now.retrieval != std::exchange(before.retrieval, now.retrieval)) changed = changed | Analysis::retrieval;
  return now != before ? changed | Analysis::influence : changed;
}

}  // namespace

AnalysisInfo influence_row() {
  constexpr auto begin = [](auto& measurement, const AnalysisSubject& of) {
    measurement.config = of.chosen<InfluenceConfig>();
    measurement.begin(of.inspected->now().index);
  };
  // Measures every branch separately, and the stack.
  const auto work = [](const AnalysisSubject& subject) -> ModelWork {
    const InfluenceConfig& config = subject.chosen<InfluenceConfig>();
    const double tokens = config.tokens, lags = config.per_decade * std::log10(std::max(10.0, tokens));
    const double rows = (config.source < 0 ? config.averaged : 1) * lags * config.directions;
    const double setup = 2 * tokens, all = setup + 2 * rows * reverse * tokens / 2;
    return {all, 0, setup / all};
  };
  using Form = MeasuredAnalysis<InfluenceMeasurement, Analysis::influence, begin, &AnalysisResults::influence>;
  AnalysisSettings settings = settings_of<Analysis::influence, InfluenceConfig, parse_influence>();
  settings.choose = choose_influence;
  return {{}, Analysis::influence, "influence", make_of_tokens<Form>, work, settings};
}

}  // namespace afterglow
