// Decomposes each token's numbers on CPU threads while the device computes the next tokens of a trace.
#pragma once
#include <future>
#include <vector>

#include "core/backend/parallel.h"
#include "core/engine/observation/observation.h"

namespace afterglow {

/// Numbers of one token, copied from the device.
struct TokenNumbers {
  std::vector<double> scores;                  ///< a logit for each possible next token
  std::vector<std::vector<double>> operators;  ///< A_w [r*r] of each head of `ska`; empty if not captured
  int rank = 0;                                ///< r
  std::vector<double> matrices;                ///< state of all heads, if each has a matrix
  int heads = 0, rows = 0;                     ///< of `matrices`
};

class TraceDecomposition {
 public:
  /// Uses `pool` exclusively until `finish` has returned.
  explicit TraceDecomposition(ThreadPool& pool) : pool_(pool) {}
  /// Queues a token: fills in the answers and what follows from each head's G and A_w. Returns before that is done;
  /// `step` must stay in place.
  void add(TokenStep& step, TokenNumbers numbers);
  /// Waits until all is filled in. Rethrows errors of the work.
  void finish();

 private:
  struct Token {
    TokenStep* step;
    TokenNumbers numbers;
  };
  void begin();

  ThreadPool& pool_;
  std::vector<Token> waiting_;
  std::future<void> work_;  // its destructor waits for the thread
};

}  // namespace afterglow
