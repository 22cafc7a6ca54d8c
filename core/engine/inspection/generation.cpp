// Writes one token at a time and carries the states of all layers.
#include "core/engine/inspection/generation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "core/backend/token_ranking.h"
#include "core/engine/training/inspected_example.h"
#include "core/engine/training/pinned_array.h"
#include "core/io/error.h"
#include "core/layers/host_values.h"
#include "core/models/step_program.h"
#include "core/random/random.h"

namespace afterglow {
namespace {

/// What `ranked_logits` gives.
struct Ranking {
  std::vector<double> numbers;
  std::size_t count() const { return numbers.size() / 2; }
  double total() const { return numbers[0]; }
  double logit(std::size_t rank) const { return numbers[1 + rank]; }
  int token(std::size_t rank) const { return static_cast<int>(numbers[1 + count() + rank]); }
};

/// The token at `place` of all probability, among the `top` first of those that are ranked. None when it may be one
/// that is not ranked, or where the total of the vocabulary, whose last digits depend on its order, would decide.
std::optional<int> draw_among(const Ranking& ranking, std::int64_t top, const GenerationOptions& options,
                              double place) {
  constexpr double rounding = 1e-9;  // of the total; sums in another order differ by far less
  std::vector<double> sums;
  for (std::size_t rank = 0; rank < ranking.count(); ++rank)
    sums.push_back((rank > 0 ? sums.back() : 0) +
                   std::exp((ranking.logit(rank) - ranking.logit(0)) / options.temperature));
  const bool are_all = std::ssize(sums) >= top;
  double total = are_all ? sums.back() : ranking.total(), margin = are_all ? 0 : rounding * total;
  const auto rank_at = [&](double wanted) -> std::optional<std::size_t> {
    const auto found = static_cast<std::size_t>(std::ranges::upper_bound(sums, wanted) - sums.begin());
    const bool is_clear = margin == 0 || (found < sums.size() && sums[found] - wanted > margin &&
                                          (found == 0 || wanted - sums[found - 1] > margin));
    return is_clear ? std::optional(std::min(found, sums.size() - 1)) : std::nullopt;
  };
  if (options.top_p < 1) {
    const std::optional<std::size_t> last = rank_at(options.top_p * total);
    if (!last) return std::nullopt;
    sums.resize(*last + 1);
    total = sums.back();
    margin = 0;
  }
  const std::optional<std::size_t> rank = rank_at(place * total);
  return rank ? std::optional(ranking.token(*rank)) : std::nullopt;
}

std::int64_t top_of(std::int64_t vocab, const GenerationOptions& options) {
  return options.top > 0 ? std::min<std::int64_t>(vocab, options.top) : vocab;
}

}  // namespace

FirstRanking first_ranking(std::int64_t vocab, const GenerationOptions& options) {
  if (options.temperature <= 0) return {1, 0};
  const std::int64_t top = top_of(vocab, options), few = std::min(top, static_cast<std::int64_t>(max_ranked));
  return {few, few < top && top == vocab ? options.temperature : 0};
}

int draw_token(std::int64_t vocab, const RankTokens& rank, const GenerationOptions& options, Random& random) {
  const auto [count, temperature] = first_ranking(vocab, options);
  const Ranking few{rank(count, temperature)};
  if (!(few.logit(0) < std::numeric_limits<double>::infinity()))  // also NaN
    throw Error(ExitCode::non_finite,
                "the model's answer holds numbers that are not finite, so no token can be drawn from it; take an "
                "earlier state of the model");
  if (options.temperature <= 0) return few.token(0);
  const std::int64_t top = top_of(vocab, options);
  const double place = random.uniform();
  if (count == top || temperature > 0) {
    if (const std::optional<int> token = draw_among(few, top, options, place)) return *token;
  }
  return *draw_among({rank(top, 0)}, top, options, place);
}

namespace {

void require_beginning(const Trainer& trainer, std::span<const int> beginning, const Model& model) {
  if (beginning.empty()) throw BadInput("give at least one token to begin with");
  for (const int token : beginning) {
    if (token >= 0 && token < model.vocab()) continue;
    throw BadInput("token ", token, " is outside the model's vocabulary of ", model.vocab(), " (",
                   trainer.task().name(), ")");
  }
}

/// The logits after a beginning that is read at once. A masked `ska` treats all of it as context.
Tensor prefilled(Trainer& trainer, const std::vector<int>& tokens, ModelState& state) {
  Tape& tape = trainer.evaluation_tape();
  const auto length = static_cast<std::int64_t>(tokens.size());
  tape.begin(false);
  const Tensor given = uploaded(tape, {1, length}, DType::i32, tokens.data());
  const Tensor mask = uploaded(tape, {1, length}, DType::u8, std::vector<std::uint8_t>(tokens.size(), 1).data());
  return trainer.model().prefill(tape, given, mask, state, Model::Asked::last_token).value;
}

}  // namespace

void generate(Trainer& trainer, std::span<const int> beginning, const GenerationOptions& options,
              const std::function<bool(int)>& take) {
  Model& model = trainer.model();
  require_beginning(trainer, beginning, model);
  Backend& backend = trainer.backend();
  Tape& tape = trainer.evaluation_tape();
  ModelState state = model.make_state(backend, trainer.dtype(), 1);
  const HeldWeights held(trainer.parameters());
  const FirstRanking first = first_ranking(model.vocab(), options);
  PinnedArray input(backend, {1, 1}, DType::i32), ranked(backend, {1 + 2 * first.count}, DType::f64);
  Random random(options.seed, generation_stream);
  Tensor logits;
  auto* const ranker = dynamic_cast<TokenRanker*>(&backend);
  const auto rank_first = [&] {
    if (ranker == nullptr) return;
    ranker->rank_logits(logits, first.temperature, ranked.device());
    ranked.queue_download();
  };
  StepProgram step(tape, state, [&] {
    input.queue_upload();
    tape.begin(false);
    logits = model.step(tape, input.device(), state).value;
    rank_first();
  });
  StepProgram reading(tape, state, [&] {  // what is read before the last token needs no answer
    input.queue_upload();
    tape.begin(false);
    model.advance(tape, input.device(), state);
  });
  const auto read = [&](int token, StepProgram& program) {
    input.host<std::int32_t>()[0] = token;
    program.run();
    backend.synchronize();
  };
  // The logits leave a device that ranks them only where the first tokens do not decide.
  const RankTokens rank = [&](std::int64_t count, double temperature) {
    if (ranker == nullptr || count > first.count)
      return ranked_logits(to_host(backend, logits), temperature, static_cast<std::size_t>(count));
    const double* numbers = ranked.host<double>();
    return std::vector<double>(numbers, numbers + 1 + 2 * count);
  };
  std::vector<int> whole(static_cast<std::size_t>(model.places()), 0);  // memory tokens come first
  whole.insert(whole.end(), beginning.begin(), beginning.end());
  if (options.prefills) {
    logits = prefilled(trainer, whole, state);
    rank_first();
    backend.synchronize();
  } else {
    for (const int token : std::span(whole).first(whole.size() - 1)) read(token, reading);
    read(whole.back(), step);
  }
  if (options.keeps_scale) state.keep_scales();
  for (std::int64_t written = 0; written < options.count; ++written) {
    const int token = draw_token(model.vocab(), rank, options, random);
    if (!take(token)) return;
    if (written + 1 < options.count) read(token, step);
  }
}

}  // namespace afterglow
