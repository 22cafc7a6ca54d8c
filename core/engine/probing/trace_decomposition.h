// What a trace computes on the processor of each token's numbers, while the device goes on to the next tokens.
#pragma once
#include <future>
#include <vector>

#include "core/backend/parallel.h"
#include "core/engine/observation/observation.h"

namespace afterglow {

/// What the device has left of one token.
struct TokenNumbers {
  std::vector<double> scores;                  ///< a logit for each token that may come next
  std::vector<std::vector<double>> operators;  ///< A_w [r*r] of each head of `ska`; empty where it was not captured
  int rank = 0;                                ///< r
  std::vector<double> matrices;                ///< state of all heads, where it is a matrix for each of them
  int heads = 0, rows = 0;                     ///< of `matrices`
};

class TraceDecomposition {
 public:
  /// `pool` is its own until `finish` has returned.
  explicit TraceDecomposition(ThreadPool& pool) : pool_(pool) {}
  /// Fills in what follows from the numbers: the answers, and of the heads what their G and A_w hold. Returns before it
  /// is there; `step` must stay where it is.
  void add(TokenStep& step, TokenNumbers numbers);
  /// Waits until all is filled in. Throws what went wrong.
  void finish();

 private:
  struct Token {
    TokenStep* step;
    TokenNumbers numbers;
  };
  void begin();

  ThreadPool& pool_;
  std::vector<Token> waiting_;
  std::future<void> work_;  // waits for its thread when it is destroyed
};

}  // namespace afterglow
