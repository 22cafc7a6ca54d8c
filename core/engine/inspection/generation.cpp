// Writes one token at a time and carries the states of all layers.
#include "core/engine/inspection/generation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "core/engine/training/inspected_example.h"
#include "core/engine/training/pinned_array.h"
#include "core/io/error.h"
#include "core/layers/host_values.h"
#include "core/models/step_program.h"
#include "core/random/random.h"

namespace afterglow {

namespace {

constexpr int no_token = -1;

/// Ids of the `count` largest logits, the largest first; of equal ones the smaller id ranks higher.
std::vector<int> most_probable(std::span<const double> logits, std::size_t count) {
  std::vector<int> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto ranks_higher = [&](int a, int b) {
    const double x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(count);
  if (end != order.end()) std::nth_element(order.begin(), end, order.end(), ranks_higher);
  std::sort(order.begin(), end, ranks_higher);
  order.resize(count);
  return order;
}

void require_numbers(std::span<const double> logits) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (std::ranges::all_of(logits, [](double one) { return one < infinity; })) return;  // false for NaN
  throw Error(ExitCode::non_finite,
              "the model's answer holds numbers that are not finite, so no token can be drawn from it; take an earlier "
              "state of the model");
}

}  // namespace

int draw_token(std::span<const double> logits, const GenerationOptions& options, Random& random) {
  constexpr std::size_t few = 256;
  constexpr double rounding = 1e-9;  // of the total; sums in another order differ by far less
  require_numbers(logits);
  const auto largest = std::ranges::max_element(logits);  // of equal ones the first
  if (options.temperature <= 0) return static_cast<int>(largest - logits.begin());
  const auto weight = [&](double logit) { return std::exp((logit - *largest) / options.temperature); };
  const double place = random.uniform();
  std::vector<double> sums;
  const auto draw_among = [&](std::size_t count, std::optional<double> total) {
    const std::vector<int> ranked = most_probable(logits, count);
    double sum = 0;
    sums.clear();
    for (const int token : ranked) sums.push_back(sum += weight(logits[static_cast<std::size_t>(token)]));
    const double wanted = place * total.value_or(sum);
    const auto found = static_cast<std::size_t>(std::ranges::upper_bound(sums, wanted) - sums.begin());
    const double margin = rounding * total.value_or(0);
    const bool is_clear =
        found < count && sums[found] - wanted > margin && (found == 0 || wanted - sums[found - 1] > margin);
    return total && !is_clear ? no_token : ranked[std::min(found, count - 1)];
  };
  const std::size_t top =
      options.top > 0 ? std::min(logits.size(), static_cast<std::size_t>(options.top)) : logits.size();
  if (top == logits.size() && top > few) {  // most draws end among few tokens, and the others need no order
    double total = 0;
    for (const double logit : logits) total += weight(logit);
    if (const int token = draw_among(few, total); token != no_token) return token;
  }
  return draw_among(top, std::nullopt);
}

namespace {

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
  Tape& tape = trainer.evaluation_tape();
  const auto length = static_cast<std::int64_t>(tokens.size());
  tape.begin(false);
  const Tensor given = uploaded(tape, {1, length}, DType::i32, tokens.data());
  const Tensor mask = uploaded(tape, {1, length}, DType::u8, std::vector<std::uint8_t>(tokens.size(), 1).data());
  const Tensor all = trainer.model().prefill(tape, given, mask, state).value;
  return to_host(trainer.backend(), all.reshaped({length, all.columns()}).at(length - 1));
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
    const int token = draw_token(logits, options, random);
    if (!take(token)) return;
    logits = read(token);
  }
}

}  // namespace afterglow
