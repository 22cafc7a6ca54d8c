// Recall of a planted token: asked for it some tokens later, does a layer's answer still tell which of several tokens
// was planted?
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/engine/influence/jacobian_measure.h"

namespace afterglow {

struct RecallPlan {
  int source = 8;             ///< last place of the planted phrase, >= phrase_tokens - 1
  std::vector<int> lags;      ///< >= phrase_tokens, from there to the end of the question; each has its own sequences
  int tokens_at_once = 4096;  ///< of one pass, all sequences together; one context at the least
};

constexpr int phrase_tokens = 4;
constexpr int planted_tokens = 4;    ///< different tokens, of which one is planted; guessing is right once in four
constexpr int recall_contexts = 16;  ///< sequences of white noise around each of them

/// Share of right answers of a decoder that has seen every context but the one it is asked about: the class whose mean
/// is nearest, each channel in units of its spread within the classes. `outputs` [contexts, classes, width].
double decoded_share(std::span<const double> outputs, int contexts, int classes, int width);

/// What the questions are made of, the same for every layer that is asked: white noise for each context, the cue, and a
/// value for each planted token.
class RecallNoise {
 public:
  RecallNoise(std::uint64_t seed, int width, int tokens);
  /// The noise of one more context; false when all contexts have theirs.
  bool draw();
  int width() const { return static_cast<int>(cue_.size()); }
  /// [tokens, width]; a shorter sequence has its beginning.
  std::span<const double> context(int index) const { return contexts_[static_cast<std::size_t>(index)]; }
  std::span<const double> cue() const { return cue_; }
  std::span<const double> value(int planted) const { return values_[static_cast<std::size_t>(planted)]; }

 private:
  std::uint64_t seed_;
  std::size_t size_;
  std::vector<std::vector<double>> contexts_, values_;
  std::vector<double> cue_;
};

/// A planted token is a cue that all four share and a value of its own, both random; the question, `lag` tokens later,
/// is the cue. Each stands `phrase_tokens` long, as wide as the layers' short convolutions, so that keys and queries
/// are those of the phrase alone. Before and between lies white noise, the same for all four, so that nothing but the
/// value tells the answers apart; the decoder meets other noise than it has learned from.
class PlantedRecall {
 public:
  /// Tape, map and noise must outlive it; the tape belongs to it while `advance` runs. The noise is at least as
  /// long as the longest lag wants it.
  PlantedRecall(Tape& tape, DType dtype, RecallNoise& noise, SequenceMap map, RecallPlan plan);
  /// As many contexts of one lag as a pass bears, or noise that is not there yet; false when all lags have been asked.
  bool advance();
  /// The lags that have been asked about, and the share of right answers at each.
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
