// Scores of constructed networks, a few target tokens at a time.
#include "core/engine/analyses/retrieval/retrieval_experiment.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/analysis/influence/influence.h"
#include "core/engine/analyses/influence/influence_measurement.h"
#include "core/engine/session/analysis_table.h"
#include "core/engine/training/inspected_example.h"
#include "core/io/json_file.h"
#include "core/layers/host_values.h"
#include "core/random/random.h"

namespace afterglow {
namespace {

constexpr int retrieval_lags_in_a_decade = 10, tokens_in_a_retrieval_pass = 1024;
constexpr double first_retrieval_lag = 8;  // smaller lags bend the fit
constexpr std::uint64_t noise_seed = 12;

}  // namespace

RetrievalConfig parse_retrieval(const nlohmann::json& value, RetrievalConfig config) {
  const std::string where = "influence.retrieval";
  refuse_unknown_keys(value, {"beta", "jumps", "source", "leak", "tokens", "freeze_step"}, where);
  config.network = parse_retrieval_network(value, config.network, where);
  config.freeze_step = get_number(value, "freeze_step", config.freeze_step, 1e-4, 10, where);
  return config;
}

nlohmann::json to_json(const RetrievalConfig& config) {
  const RetrievalNetwork& network = config.network;
  return {{"beta", network.beta}, {"jumps", network.jumps},   {"source", network.source},
          {"leak", network.leak}, {"tokens", network.tokens}, {"freeze_step", config.freeze_step}};
}

struct RetrievalExperiment::Stack {
  Stack(const std::vector<WrittenBlock>& blocks, Backend& backend) : layers(blocks, backend) {}
  WrittenStack layers;
  std::vector<double> scores, competitors;  // at the view's lags, as far as computed
};

RetrievalExperiment::RetrievalExperiment(RetrievalConfig config)
    : config_(std::move(config)),
      backend_(make_cpu_backend(1)),
      arena_(std::make_unique<Arena>(*backend_)),
      tape_(std::make_unique<Tape>(*backend_, *arena_)),
      found_(std::make_shared<RetrievalView>()) {
  const RetrievalNetwork& network = config_.network;
  Random random(noise_seed);
  for (int i = 0; i < network.tokens * network.width; ++i)
    x_.push_back(retrieval_input_bound * (2 * random.uniform() - 1));
  RetrievalView& view = *found_;
  view.beta = network.beta;
  view.leak = network.leak;
  view.freeze_step = config_.freeze_step;
  view.tokens = network.tokens;
  view.jumps = network.jumps;
  view.source = network.source;
  view.theory = deep_exponent(network.jumps, network.beta);
  for (const int lag : spread_lags(network.tokens - 1 - network.source, retrieval_lags_in_a_decade))
    view.lags.push_back(lag);
  const std::vector<WrittenBlock> blocks = retrieval_blocks(network);
  for (const WrittenBlock& block : blocks) view.roles.push_back(block.role);
  add_stack(blocks);
  for (const int depth : {network.jumps, static_cast<int>(blocks.size())}) {
    add_stack(diffuse_attention_blocks(network.width, depth));
    view.others.push_back({std::to_string(depth) + " diffuse attention", "", depth, {}});
    add_stack(failed_freeze_blocks(network.width, depth, config_.freeze_step));
    view.others.push_back({std::to_string(depth) + " failed freeze", "", depth, {}});
  }
}

RetrievalExperiment::~RetrievalExperiment() = default;

void RetrievalExperiment::add_stack(const std::vector<WrittenBlock>& blocks) {
  stacks_.push_back(std::make_unique<Stack>(blocks, *backend_));
}

Tensor RetrievalExperiment::input(int batch, int length) {
  const int width = config_.network.width;
  return repeated(*tape_, batch, width, DType::f64, std::span(x_).first(static_cast<std::size_t>(length * width)));
}

/// Profile and position as the macro-layers compute them.
void RetrievalExperiment::read_channels() {
  const RetrievalNetwork& network = config_.network;
  tape_->begin(false);
  const Var x = tape_->constant(input(1, network.tokens));
  const auto prepared = found_->roles.size() - 2 * static_cast<std::size_t>(network.jumps);
  const std::vector<double> stream =
      to_host(*backend_, stacks_.front()->layers.stream_before(*tape_, x, prepared).value);
  for (int t = 0; t < network.tokens; ++t) {
    const auto row = static_cast<std::size_t>(t * network.width);
    found_->profile.push_back(stream[row + profile_channel]);
    found_->position.push_back(stream[row + position_channel]);
  }
}

void RetrievalExperiment::measure_copies() {
  const int width = config_.network.width, tokens = config_.network.tokens;
  WrittenStack copies(copy_blocks(width, tokens), *backend_);
  std::vector<double> signal(x_.size(), 0.0);
  for (std::size_t at = 0; at < x_.size(); at += static_cast<std::size_t>(width)) signal[at] = x_[at];
  tape_->begin(false);
  const Var x = tape_->constant(to_device(*tape_, {1, tokens, width}, DType::f64, signal));
  const std::vector<double> stream = to_host(*backend_, copies.forward(*tape_, x).value);
  for (int lag = 1; lag < width; ++lag) {
    double worst = 0;
    for (int t = lag; t < tokens; ++t) {
      const auto to = static_cast<std::size_t>(t * width + lag), from = static_cast<std::size_t>((t - lag) * width);
      worst = std::max(worst, std::abs(stream[to] - signal[from]));
    }
    found_->copy_errors.push_back(worst);
  }
}

/// The next targets of the stack: a batch row each, with a cotangent on the signal of its target.
void RetrievalExperiment::score(Stack& stack) {
  const RetrievalNetwork& network = config_.network;
  const auto width = static_cast<std::size_t>(network.width);
  const auto target = [&](std::size_t place) { return network.source + static_cast<int>(found_->lags[place]); };
  const std::size_t first = stack.scores.size();
  std::size_t end = first + 1;
  while (end < found_->lags.size() &&
         static_cast<int>(end + 1 - first) * (target(end) + 1) <= tokens_in_a_retrieval_pass)
    ++end;
  const int batch = static_cast<int>(end - first), length = target(end - 1) + 1;
  const std::size_t row = static_cast<std::size_t>(length) * width;

  tape_->begin(true);
  tape_->set_frozen(true);
  const Var x = tape_->input(input(batch, length));
  const Var y = stack.layers.forward(*tape_, x);
  std::vector<double> upstream(static_cast<std::size_t>(batch) * row, 0.0);
  for (std::size_t b = 0; b < end - first; ++b)
    upstream[b * row + static_cast<std::size_t>(target(first + b)) * width + signal_channel] = 1;
  tape_->backward(y, to_device(*tape_, x.shape(), DType::f64, upstream));
  const std::vector<double> found = to_host(*backend_, tape_->gradient_of(x));
  for (std::size_t b = 0; b < end - first; ++b) {
    double others = 0, own = 0;
    for (int tau = 0; tau < target(first + b); ++tau) {
      const double score = found[b * row + static_cast<std::size_t>(tau) * width + signal_channel];
      (tau == network.source ? own : others) += tau == network.source ? score : std::abs(score);
    }
    stack.scores.push_back(own);
    stack.competitors.push_back(others);
  }
}

void RetrievalExperiment::finish() {
  RetrievalView& view = *found_;
  view.scores = stacks_.front()->scores;
  view.competitors = stacks_.front()->competitors;
  view.kind = stacks_.front()->layers.kind();
  for (std::size_t i = 0; i < view.others.size(); ++i) {
    view.others[i].scores = stacks_[i + 1]->scores;
    view.others[i].kind = stacks_[i + 1]->layers.kind();
  }
  view.low = INFINITY;
  for (std::size_t i = 0; i < view.lags.size(); ++i) {
    const double constant = view.scores[i] / std::pow(view.lags[i], view.theory);
    view.low = std::min(view.low, constant);
    view.high = std::max(view.high, constant);
  }
  view.fit = fit_influence(view.lags, view.scores, first_retrieval_lag);
  view_ = std::move(found_);
  stacks_.clear();
  tape_.reset();
  arena_.reset();
}

bool RetrievalExperiment::advance() {
  if (view_) return false;
  if (found_->profile.empty()) {
    read_channels();
    measure_copies();
    return true;
  }
  const auto open =
      std::ranges::find_if(stacks_, [&](const auto& stack) { return stack->scores.size() < found_->lags.size(); });
  if (open != stacks_.end()) {
    score(**open);
    return true;
  }
  finish();
  return false;
}

namespace {

/// A network of its own, independent of the run's model and step.
class RetrievalAnalysis final : public UntiedAnalysis {
 public:
  using UntiedAnalysis::UntiedAnalysis;
  AnalysisState state() const override {
    const bool is_current = view_ && !experiment_ && measured_ == asked();
    return {is_current    ? AnalysisPhase::current
            : experiment_ ? AnalysisPhase::computing
                          : AnalysisPhase::waiting,
            -1, view_ != nullptr, is_urgent_, is_current || is_urgent_};
  }
  void advance(Budget) override {
    if (!experiment_ || measured_ != asked()) {
      measured_ = asked();
      experiment_ = std::make_unique<RetrievalExperiment>(measured_);
    } else if (!experiment_->advance()) {
      view_ = experiment_->view();
      experiment_.reset();
      is_urgent_ = false;
    }
  }
  void publish(AnalysisResults& results) const override { results.retrieval = view_; }
  void invalidate() override { is_urgent_ = true; }

 private:
  const RetrievalConfig& asked() const { return of_->chosen<InfluenceConfig>().retrieval; }
  RetrievalConfig measured_;
  std::unique_ptr<RetrievalExperiment> experiment_;  // while it runs
  std::shared_ptr<const RetrievalView> view_;
  bool is_urgent_ = true;
};

}  // namespace

AnalysisInfo retrieval_row() { return {{}, Analysis::retrieval, "retrieval", make_of_any<RetrievalAnalysis>}; }

}  // namespace afterglow
