// Recall of a planted token: whether a layer's output at a later query reveals which of several tokens was planted.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/engine/analyses/influence/jacobian_measure.h"

namespace afterglow {

struct RecallPlan {
  int source = 8;             ///< last index of the planted phrase, >= phrase_tokens - 1
  std::vector<int> lags;      ///< >= phrase_tokens, from there to the end of the query; each has its own sequences
  int tokens_at_once = 4096;  ///< of one pass, all sequences together; at least one context
};

constexpr int phrase_tokens = 4;
constexpr int planted_tokens = 4;    ///< alternatives for the planted token; chance is 1 in 4
constexpr int recall_contexts = 16;  ///< sequences of white noise for each of them

/// Share of right answers of a decoder fitted without the context that it decodes: it chooses the class with the
/// nearest mean, each channel in units of its spread within the classes. `outputs` [contexts, classes, width].
double decoded_share(std::span<const double> outputs, int contexts, int classes, int width);

/// Random inputs, the same for every layer: white noise for each context, the cue, and a value for each planted token.
class RecallNoise {
 public:
  RecallNoise(std::uint64_t seed, int width, int tokens);
  /// Draws the noise of one more context; false if all have theirs.
  bool draw();
  int width() const { return static_cast<int>(cue_.size()); }
  /// [tokens, width]; a shorter sequence uses its beginning.
  std::span<const double> context(int index) const { return contexts_[static_cast<std::size_t>(index)]; }
  std::span<const double> cue() const { return cue_; }
  std::span<const double> value(int planted) const { return values_[static_cast<std::size_t>(planted)]; }

 private:
  std::uint64_t seed_;
  std::size_t size_;
  std::vector<std::vector<double>> contexts_, values_;
  std::vector<double> cue_;
};

/// A planted token is a cue that all alternatives share followed by a value of its own, both random; the query, `lag`
/// tokens later, is the cue. Each is repeated for `phrase_tokens` tokens, the width of the layers' short convolutions,
/// so that keys and queries depend on the phrase alone. White noise, the same for all alternatives, fills the rest, so
/// only the value separates them; the decoder is tested on other noise than it was fitted on.
class PlantedRecall {
 public:
  /// Tape, map and noise must outlive this object, which uses the tape during `advance`. The noise must cover the
  /// longest lag.
  PlantedRecall(Tape& tape, DType dtype, RecallNoise& noise, SequenceMap map, RecallPlan plan);
  /// As many contexts of one lag as fit into a pass, or missing noise; false if all lags are done.
  bool advance();
  /// The finished lags, and the share of right answers at each.
  std::vector<double> lags() const;
  const std::vector<double>& shares() const { return shares_; }

 private:
  std::vector<double> sequences(int context, int lag) const;

  Tape* tape_;
  DType dtype_;
  RecallNoise* noise_;
  SequenceMap map_;
  RecallPlan plan_;
  PassSize size_;
  std::size_t next_lag_ = 0;
  int next_context_ = 0;
  std::vector<double> outputs_;  // of this lag [contexts so far, classes, width]
  std::vector<double> shares_;
};

}  // namespace afterglow
