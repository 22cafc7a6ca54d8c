// Counts the tokens that each analysis sends through the model; see the analysis for what it does.
#include "core/engine/session/analysis_work.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/engine/analyses/ablation/ablation_measurement.h"
#include "core/engine/observation/run_numbers.h"
#include "core/layers/layer_kind.h"

namespace afterglow {

namespace {

constexpr double reverse = 3;                  // a forward and a backward pass, in forward passes
constexpr double passes_of_a_step = 25;        // a step reads all weights for a few tokens
constexpr double operations_by_itself = 3e11;  // about ten seconds on two cores
constexpr double min_part = 1e-6;

double length_of(const AnalysisSubject& subject) { return static_cast<double>(subject.run->trainer().task().length()); }
double branches_of(const AnalysisSubject& subject) {
  return static_cast<double>(subject.run->trainer().model().branches().size());
}
/// Share of the branches up to the traced one, which a trace runs.
double depth_of_trace(const AnalysisSubject& subject) {
  const auto& parts = subject.run->trainer().parts();
  const int branch = subject.traced_part < 0 ? -1 : parts[static_cast<std::size_t>(subject.traced_part)].branch;
  return branch < 0 ? 1 : (branch + 1) / branches_of(subject);
}
double tokens_of_training(const AnalysisSubject& subject, double steps) {
  return reverse * steps * static_cast<double>(subject.run->trainer().config().batch) * length_of(subject);
}

}  // namespace

Pace measure_pace(Trainer& trainer) {
  constexpr std::size_t most = 64;
  Example example = trainer.task().example(trainer.seed(), 0, Split::held_out);
  const std::size_t count = std::min(most, example.tokens.size());
  Tape& tape = trainer.evaluation_tape();
  Backend& backend = trainer.backend();
  const auto seconds = [&](const auto& work) {
    backend.synchronize();
    const auto from = std::chrono::steady_clock::now();
    tape.begin(false);
    work();
    backend.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  };
  const auto upload = [&](Shape shape, DType dtype, const void* values) {
    const Tensor tensor = tape.scratch(shape, dtype);
    backend.upload(tensor, values);
    return tensor;
  };
  Pace pace;
  const auto length = static_cast<std::int64_t>(count);
  pace.token = seconds([&] {
                 const Tensor tokens = upload({1, length}, DType::i32, example.tokens.data());
                 trainer.model().forward(tape, tokens, upload({1, length}, DType::u8, example.context.data()));
               }) /
               static_cast<double>(count);
  ModelState state = trainer.model().make_state(backend, trainer.dtype(), 2);
  const std::int32_t two[] = {example.tokens.front(), example.tokens.front()};
  pace.step = seconds([&] { trainer.model().advance(tape, upload({2, 1}, DType::i32, two), state); });
  return pace;
}

double seconds_of(const ModelWork& work, const Pace& pace) { return work.tokens * pace.token + work.steps * pace.step; }

double first_part(const ModelWork& work, std::int64_t parameters) {
  const double operations = 2.0 * static_cast<double>(parameters) * (work.tokens + passes_of_a_step * work.steps);
  const double part = operations > operations_by_itself ? operations_by_itself / operations : 1;
  return part < work.first ? 0 : std::max(part, min_part);
}

/// Runs the inspected sequence and the held-out ones, with and without interventions.
ModelWork work_of_inspection(const AnalysisSubject& subject) {
  const bool is_edited = subject.inspected && !subject.inspected->now().interventions.empty();
  const double held_out = static_cast<double>(held_out_sequences(subject.run->trainer())) * length_of(subject);
  return {(is_edited ? 2 : 1) * (length_of(subject) + held_out), 0, 0};
}

ModelWork work_of_transplant(const AnalysisSubject& subject) {
  return {0, length_of(subject) * (1 + depth_of_trace(subject)), 1};
}

/// Six rounds of one backward and two forward passes in each branch.
ModelWork work_of_theory(const AnalysisSubject& subject) {
  constexpr double rounds = 6;
  return {length_of(subject) * (1 + reverse + rounds * (reverse + 2)), 0, 1};
}

/// Both sequences, the backward pass, and the head after each branch.
ModelWork work_of_logit_lens(const AnalysisSubject& subject) {
  const Model& model = subject.run->trainer().model();
  const double head = static_cast<double>(model.vocab() * model.width()) /
                      static_cast<double>(subject.run->trainer().parameters().count());
  return {length_of(subject) * (2 + reverse + (branches_of(subject) + 1) * head), 0, 1};
}

/// Measures every branch separately, and the stack.
ModelWork work_of_influence(const AnalysisSubject& subject) {
  const InfluenceConfig& config = subject.influence;
  const double tokens = config.tokens, lags = config.per_decade * std::log10(std::max(10.0, tokens));
  const double rows = (config.source < 0 ? config.averaged : 1) * lags * config.directions;
  const double begin = 2 * tokens, all = begin + 2 * rows * reverse * tokens / 2;
  return {all, 0, begin / all};
}

/// The race's layers have the model's width; each is about as large as one of its layers.
ModelWork work_of_race(const AnalysisSubject& subject) {
  const RaceConfig& config = subject.influence.race;
  const auto mixes = [](const auto& part) { return part.branch >= 0 && mixes_tokens(part.kind); };
  auto layers = static_cast<double>(config.kinds.size());
  if (config.kinds.empty())
    layers = static_cast<double>(std::ranges::count_if(layer_kinds(), &LayerKind::mixes_tokens));
  if (subject.step() > 0) layers += static_cast<double>(std::ranges::count_if(subject.run->trainer().parts(), mixes));
  const RaceWork one = race_work_of_a_layer(config);
  const double share = layers / branches_of(subject), tokens = one.tail + one.recall;
  const double first = (one.tail + passes_of_a_step * one.steps) / (tokens + passes_of_a_step * one.steps);
  return {share * tokens, share * one.steps, first / std::max(1.0, layers)};
}

/// Streams and outputs at every token, each from its branch on; states token by token; paths.
ModelWork work_of_patch(const AnalysisSubject& subject) {
  constexpr double memories_of_a_layer = 3;
  const double T = length_of(subject), branches = branches_of(subject), begin = (2 + reverse) * T;
  const ModelWork all{begin + (2 * branches + 1) * T * T / 2 + branches * branches * T,
                      memories_of_a_layer * branches * T * T, 0};
  return {all.tokens, all.steps, begin / (all.tokens + passes_of_a_step * all.steps)};
}

/// One pass over the held-out sequences for each block and head.
ModelWork work_of_ablation(const AnalysisSubject& subject) {
  double asked = 2;
  for (const ModelPart& part : subject.run->trainer().parts())
    asked += part.branch < 0 ? 0 : 1 + (part.heads > 1 ? part.heads : 0);
  return {asked * static_cast<double>(tokens_of_an_ablation(subject.run->trainer())), 0, 2 / asked};
}

ModelWork work_of_readout(const AnalysisSubject& subject) {
  const double length = std::min(length_of(subject), 256.0), steps = length * depth_of_trace(subject);
  constexpr double sequences = 64, reading = 20;  // `reading`: the ridge fit on the host, in tokens
  return {sequences * steps + reading * length, steps, 1 / std::max(1.0, length)};
}

/// Five numbers of bindings at lengths that double from cell to cell.
ModelWork work_of_accuracy(const AnalysisSubject& subject) {
  constexpr double bindings = 5, shortest = 64, first_examples = 8;
  const auto tasks = static_cast<double>(askable_tasks(subject.run->recipe().task).size());
  const auto examples = static_cast<double>(subject.accuracy.examples);
  const double all = tasks * bindings * examples * 2 * subject.accuracy.longest;
  return {all, 0, all > 0 ? first_examples * shortest / all : 0};
}

/// A hundred repetitions of fifty steps on average.
ModelWork work_of_blame(const AnalysisSubject& subject) { return {tokens_of_training(subject, 100 * 50), 0, 0}; }

ModelWork work_of_microscope(const AnalysisSubject& subject) {
  const MicroscopeConfig config = subject.microscope.config.value_or(MicroscopeConfig());
  return {tokens_of_training(subject, 2 * static_cast<double>(config.steps)), 0, 0};
}

ModelWork work_of_bisect(const AnalysisSubject& subject) {
  const double steps = static_cast<double>(subject.run->trainer().config().steps);
  return {tokens_of_training(subject, (branches_of(subject) + 3) * steps), 0, 0};
}

/// Opens each saved state and measures the number there.
ModelWork work_of_over_training(const AnalysisSubject& subject) {
  const OverTrainingConfig config = subject.over_training.config.value_or(OverTrainingConfig());
  const NumberFamily* family = family_of(config.number);
  ModelWork one{0, 1, 0};
  for (const AnalysisInfo& row : analysis_table()) {
    if (!family || !row.work || row.analysis == Analysis::over_training || !has(family->analyses, row.analysis))
      continue;
    const ModelWork work = row.work(subject);
    one.tokens += work.tokens;
    one.steps += work.steps;
  }
  const auto states = static_cast<double>(subject.run->kept()->size());
  return {states * one.tokens, states * one.steps, 0};
}

ModelWork work_of_phase_map(const AnalysisSubject& subject) {
  const std::shared_ptr<const PhaseMapView> view = subject.map ? subject.map->view() : nullptr;
  constexpr double usual_cells = 256;
  const double cells = view ? static_cast<double>(size_of(view->sweep.axes)) : usual_cells;
  return {tokens_of_training(subject, cells * static_cast<double>(subject.map_config.steps)), 0, 1 / cells};
}

}  // namespace afterglow
