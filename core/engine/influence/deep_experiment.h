// Theorem 12's regimes as an experiment (Sessa): how an impulse at token 0 travels through k stacked blocks of uniform
// routing, read off the Jacobian of the stack by reverse passes, beside the exponent that theory promises.
#pragma once
#include <memory>
#include <vector>

#include "core/autograd/tape.h"
#include "core/engine/influence/jacobian_measure.h"
#include "core/engine/observation/influence_view.h"

namespace afterglow {

struct DeepConfig {
  int tokens = 1024;                    ///< of the stack whose Jacobian is taken
  int recursion_tokens = 1 << 17;       ///< of the recursion, which goes on where a Jacobian costs too much
  std::vector<double> betas{0.5, 0.3};  ///< 0 < beta < 1
  int max_blocks = 3;                   ///< k = 1 .. max_blocks
};

/// A stack is `feedback_solve` k times with all logits 0 and the gain 1 - beta, each time of its input times the
/// profile (t + 1)^(1 - beta) of lemma K.22, less what has made no hop: the Jacobian of uniform_stack_profile. It needs
/// no model: float64 on one thread of the CPU, always the same bits.
class DeepExperiment {
 public:
  explicit DeepExperiment(DeepConfig config = {});
  ~DeepExperiment();
  /// One reverse pass; false when all stacks are known.
  bool advance();
  /// Null before `advance` has come to its end: then one for each beta and, within it, number of blocks.
  const std::shared_ptr<const std::vector<DeepProfile>>& profiles() const { return profiles_; }

 private:
  struct Stack;
  void begin_stack();
  void finish_stack();

  DeepConfig config_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Tape> tape_;
  std::vector<DeepProfile> done_;
  std::unique_ptr<Stack> stack_;  // the one that is being measured
  std::shared_ptr<const std::vector<DeepProfile>> profiles_;
};

}  // namespace afterglow
