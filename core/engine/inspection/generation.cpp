// Writes one token at a time and carries the states of all layers.
#include "core/engine/inspection/generation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/engine/training/pinned_array.h"
#include "core/io/error.h"
#include "core/layers/host_values.h"
#include "core/models/step_program.h"
#include "core/random/random.h"

namespace afterglow {

namespace {

/// Draws a token from the logits; of equally probable tokens the first ranks higher.
int draw(std::span<const double> logits, const GenerationOptions& options, Random& random) {
  std::vector<int> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](int a, int b) { return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)]; });
  if (options.temperature <= 0) return order.front();
  if (options.top > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(options.top)));
  const double largest = logits[static_cast<std::size_t>(order.front())];
  std::vector<double> sums;
  double sum = 0;
  for (const int token : order) {
    sum += std::exp((logits[static_cast<std::size_t>(token)] - largest) / options.temperature);
    sums.push_back(sum);
  }
  const auto found = std::ranges::upper_bound(sums, random.uniform() * sum);
  return order[std::min(static_cast<std::size_t>(found - sums.begin()), order.size() - 1)];
}

void require_beginning(const Trainer& trainer, std::span<const int> beginning, const Model& model) {
  if (beginning.empty()) throw Error(ExitCode::bad_input, "give at least one token to begin with");
  for (const int token : beginning) {
    if (token >= 0 && token < model.vocab()) continue;
    throw Error(ExitCode::bad_input, "token " + std::to_string(token) + " is outside the model's vocabulary of " +
                                         std::to_string(model.vocab()) + " (" + trainer.task().name() + ")");
  }
}

/// The logits after a beginning that is read at once. A masked `ska` treats all of it as context.
std::vector<double> prefilled(Trainer& trainer, const std::vector<int>& tokens, ModelState& state) {
  Backend& backend = trainer.backend();
  Tape& tape = trainer.evaluation_tape();
  const auto length = static_cast<std::int64_t>(tokens.size());
  tape.begin(false);
  const Tensor given = tape.scratch({1, length}, DType::i32), mask = tape.scratch({1, length}, DType::u8);
  backend.upload(given, tokens.data());
  backend.upload(mask, std::vector<std::uint8_t>(tokens.size(), 1).data());
  const std::vector<double> all = to_host(backend, trainer.model().prefill(tape, given, mask, state).value);
  return {all.end() - trainer.model().vocab(), all.end()};
}

}  // namespace

void generate(Trainer& trainer, std::span<const int> beginning, const GenerationOptions& options,
              const std::function<bool(int)>& take) {
  Model& model = trainer.model();
  require_beginning(trainer, beginning, model);
  Backend& backend = trainer.backend();
  Tape& tape = trainer.evaluation_tape();
  ModelState state = model.make_state(backend, trainer.dtype(), 1);
  PinnedArray input(backend, {1, 1}, DType::i32);
  Random random(options.seed, generation_stream);
  Var answer;
  StepProgram step(tape, state, [&] {
    input.queue_upload();
    tape.begin(false);
    answer = model.step(tape, input.device(), state);
  });
  const auto read = [&](int token) {
    input.host<std::int32_t>()[0] = token;
    step.run();
    return to_host(backend, answer.value);
  };
  std::vector<int> whole(static_cast<std::size_t>(model.places()), 0);  // memory tokens come first
  whole.insert(whole.end(), beginning.begin(), beginning.end());
  std::vector<double> logits;
  if (options.prefills) {
    logits = prefilled(trainer, whole, state);
  } else {
    for (const int token : whole) logits = read(token);
  }
  if (options.keeps_scale) state.keep_scales();
  for (std::int64_t written = 0; written < options.count; ++written) {
    const int token = draw(logits, options, random);
    if (!take(token)) return;
    logits = read(token);
  }
}

}  // namespace afterglow
