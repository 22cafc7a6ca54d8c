// Text that a model writes: tokens drawn one after the other from its recurrent form.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/engine/training/trainer.h"

namespace afterglow {

class Random;

struct GenerationOptions {
  std::int64_t count = 256;  ///< number of tokens to write
  double temperature = 1;    ///< divides the logits; 0 always takes the most probable token
  int top = 0;               ///< draws only from the `top` most probable tokens; 0: from all
  double top_p = 1;          ///< of these only from the most probable that together have this probability
  std::uint64_t seed = 0;    ///< the same model, beginning and options write the same tokens
  bool prefills = false;     ///< reads the beginning at once, in each layer's parallel form
  bool keeps_scale = false;  ///< `ska` keeps its scale m from the beginning (Echo 3.2.1)
};

/// `ranked_logits` of one row, for so many tokens and with this temperature.
using RankTokens = std::function<std::vector<double>(std::int64_t count, double temperature)>;

/// How many tokens of a vocabulary `draw_token` asks to be ranked, and with what temperature; more only where it cannot
/// draw among them.
struct FirstRanking {
  std::int64_t count;
  double temperature;
};
FirstRanking first_ranking(std::int64_t vocab, const GenerationOptions& options);

/// Draws one of `vocab` tokens; takes one number from `random`, with a temperature of 0 none. Sums over the vocabulary
/// may have any order: the token does not depend on it. Throws Error(non_finite) for NaN and infinity among the logits.
int draw_token(std::int64_t vocab, const RankTokens& rank, const GenerationOptions& options, Random& random);

/// Reads `beginning` (at least one token) and continues it; passes every new token to `take`, which returns false to
/// stop. Throws Error(bad_input) for a forecaster, an empty beginning, or a token outside the vocabulary.
void generate(Trainer& trainer, std::span<const int> beginning, const GenerationOptions& options,
              const std::function<bool(int token)>& take);

}  // namespace afterglow
