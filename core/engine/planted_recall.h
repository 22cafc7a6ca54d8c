// Recall of a planted token: asked for it some tokens later, does a layer's answer still tell which of several tokens
// was planted?
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/engine/jacobian_measure.h"

namespace afterglow {

struct RecallPlan {
  int source = 8;         ///< last place of the planted phrase, >= phrase_tokens - 1
  std::vector<int> lags;  ///< >= phrase_tokens, from there to the end of the question; each has its own sequences
  std::uint64_t seed = 0;
};

constexpr int phrase_tokens = 4;
constexpr int planted_tokens = 4;    ///< different tokens, of which one is planted; guessing is right once in four
constexpr int recall_contexts = 16;  ///< sequences of white noise around each of them

/// Share of right answers of a decoder that has seen every context but the one it is asked about: the class whose mean
/// is nearest, each channel in units of its spread within the classes. `outputs` [contexts, classes, width].
double decoded_share(std::span<const double> outputs, int contexts, int classes, int width);

/// A planted token is a cue that all four share and a value of its own, both random; the question, `lag` tokens later,
/// is the cue. Each stands `phrase_tokens` long, as wide as the layers' short convolutions, so that keys and queries
/// are those of the phrase alone. Before and between lies white noise, the same for all four, so that nothing but the
/// value tells the answers apart; the decoder meets other noise than it has learned from.
class PlantedRecall {
 public:
  /// Tape and map must outlive it; the tape belongs to it while `advance` runs.
  PlantedRecall(Tape& tape, DType dtype, int width, SequenceMap map, RecallPlan plan);
  /// One context; false when there is none left.
  bool advance();
  /// Right answers at each lag of the plan, once all contexts have been run.
  std::vector<double> shares() const;

 private:
  std::vector<double> sequences(int context, int lag) const;

  Tape* tape_;
  DType dtype_;
  int width_;
  SequenceMap map_;
  RecallPlan plan_;
  int next_ = 0;
  std::vector<double> outputs_;  // [contexts, lags, classes, width]
};

}  // namespace afterglow
