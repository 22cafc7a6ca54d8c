// Theorem 12's regimes as an experiment (Sessa): the decay of an impulse at token 0 through k stacked blocks of uniform
// routing, from the stack's Jacobian by backward passes, compared with the predicted exponent.
#pragma once
#include <memory>
#include <vector>

#include "core/autograd/tape.h"
#include "core/engine/analyses/influence/influence_view.h"
#include "core/engine/analyses/influence/jacobian_measure.h"

namespace afterglow {

struct DeepConfig {
  int tokens = 1024;                    ///< of the stack whose Jacobian is computed
  int recursion_tokens = 1 << 17;       ///< of the recursion, for lags at which a Jacobian is too expensive
  std::vector<double> betas{0.5, 0.3};  ///< 0 < beta < 1
  int max_blocks = 3;                   ///< k = 1 .. max_blocks
};

/// A stack applies `feedback_solve` k times with all logits 0 and the gain 1 - beta, each time to its input times the
/// profile (t + 1)^(1 - beta) of lemma K.22, minus the part without a hop: its Jacobian is uniform_stack_profile. It
/// needs no model: float64 on one CPU thread, always the same bits.
class DeepExperiment {
 public:
  explicit DeepExperiment(DeepConfig config = {});
  ~DeepExperiment();
  /// One backward pass; false if all stacks are finished.
  bool advance();
  /// Null until `advance` has finished; then one for each beta and, within it, number of blocks.
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
  std::unique_ptr<Stack> stack_;  // the one in progress
  std::shared_ptr<const std::vector<DeepProfile>> profiles_;
};

}  // namespace afterglow
