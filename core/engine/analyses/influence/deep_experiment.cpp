// Stacks of feedback solves, one after the other.
#include "core/engine/analyses/influence/deep_experiment.h"

#include <cmath>

#include "core/analysis/influence/influence.h"
#include "core/layers/host_values.h"
#include "core/ops/ops.h"

namespace afterglow {
namespace {

constexpr int lags_in_a_decade = 8, far_lags_in_a_decade = 12;
constexpr double first_deep_lag = 128, first_far_lag = 1e4;  // smaller lags have not reached the asymptotic law
constexpr int tokens_in_a_deep_pass = 2048;

/// The part of the profile times x [1,T,1] that passes at least one hop of a feedback with uniform routing.
Var uniform_block(Tape& tape, const Var& x, double gain) {
  const std::int64_t batch = x.shape()[0], tokens = x.shape()[1];
  const auto count = static_cast<std::size_t>(batch * tokens);
  std::vector<double> profile(count);
  for (std::size_t i = 0; i < count; ++i)
    profile[i] = std::pow(static_cast<double>(static_cast<std::int64_t>(i) % tokens) + 1, gain);
  const auto constant = [&](const Shape& shape, const std::vector<double>& values) {
    return tape.constant(to_device(tape, shape, DType::f64, values));
  };
  FeedbackVars in;
  in.q = in.k = constant(x.shape(), std::vector<double>(count, 0.0));
  in.gamma = constant({batch, tokens}, std::vector<double>(count, gain));
  in.f = multiply(tape, x, constant(x.shape(), profile));
  return add(tape, feedback_solve(tape, in, 1.0), scale(tape, in.f, -1.0));
}

}  // namespace

struct DeepExperiment::Stack {
  DeepProfile profile;
  std::vector<JacobianPlan::Block> blocks;
  std::unique_ptr<JacobianMeasure> measure;
};

DeepExperiment::DeepExperiment(DeepConfig config)
    : config_(std::move(config)),
      backend_(make_cpu_backend(1)),
      arena_(std::make_unique<Arena>(*backend_)),
      tape_(std::make_unique<Tape>(*backend_, *arena_)) {}

DeepExperiment::~DeepExperiment() = default;

void DeepExperiment::begin_stack() {
  const auto place = static_cast<int>(done_.size());
  stack_ = std::make_unique<Stack>();
  DeepProfile& profile = stack_->profile;
  profile.blocks = 1 + place % config_.max_blocks;
  profile.beta = config_.betas[static_cast<std::size_t>(place / config_.max_blocks)];
  profile.theory = deep_exponent(profile.blocks, profile.beta);
  JacobianPlan plan;
  plan.directions = 1;
  plan.tokens_at_once = tokens_in_a_deep_pass;
  for (const int lag : spread_lags(config_.tokens - 1, lags_in_a_decade)) {
    if (lag >= profile.blocks) plan.blocks.push_back({lag, 0});
  }
  stack_->blocks = plan.blocks;
  const auto tokens = static_cast<std::size_t>(config_.tokens);
  stack_->measure = std::make_unique<JacobianMeasure>(
      *tape_, DType::f64, std::vector<double>(tokens, 1.0), std::vector<std::uint8_t>(tokens, 1),
      [blocks = profile.blocks, gain = 1 - profile.beta](Tape& tape, const Var& x, const Tensor&) {
        Var y = x;
        for (int block = 0; block < blocks; ++block) y = uniform_block(tape, y, gain);
        return y;
      },
      std::move(plan));
}

void DeepExperiment::finish_stack() {
  DeepProfile& profile = stack_->profile;
  const std::vector<NormEstimate> norms = stack_->measure->norms();
  for (std::size_t i = 0; i < norms.size(); ++i) {
    profile.lags.push_back(stack_->blocks[i].query);
    profile.values.push_back(norms[i].value);
  }
  profile.fit = fit_influence(profile.lags, profile.values, first_deep_lag);
  const InfluenceProfile far = spread_profile(
      uniform_stack_profile(profile.blocks, 1 - profile.beta, 0, config_.recursion_tokens), far_lags_in_a_decade);
  const InfluenceProfile built = spread_profile(
      averaged_stack_profile(profile.blocks, 1 - profile.beta, 0, config_.recursion_tokens), far_lags_in_a_decade);
  for (std::size_t i = 0; i < far.lags.size(); ++i) {
    if (far.lags[i] < profile.blocks) continue;
    profile.far_lags.push_back(far.lags[i]);
    profile.far_values.push_back(far.values[i]);
    profile.built_values.push_back(built.values[i]);
  }
  profile.far_fit = fit_influence(profile.far_lags, profile.far_values, first_far_lag);
  done_.push_back(std::move(profile));
  stack_.reset();
}

bool DeepExperiment::advance() {
  if (profiles_) return false;
  if (!stack_) begin_stack();
  if (stack_->measure->advance()) return true;
  finish_stack();
  if (done_.size() < config_.betas.size() * static_cast<std::size_t>(config_.max_blocks)) return true;
  profiles_ = std::make_shared<const std::vector<DeepProfile>>(std::move(done_));
  tape_.reset();
  arena_.reset();
  return false;
}

}  // namespace afterglow
