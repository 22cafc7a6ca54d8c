// Analyses a trained model on one sequence: Koopman spectra of the whole sequence, and a trace of the recurrent form
// token by token. It never changes weights.
#pragma once
#include <memory>

#include "core/engine/analyses/solvers/solver_view.h"
#include "core/engine/observation/memory_view.h"
#include "core/engine/observation/observation.h"
#include "core/engine/training/trainer.h"
#include "core/layers/capture_reader.h"

namespace afterglow {

class Observer {
 public:
  explicit Observer(Trainer& trainer);

  /// Chooses the sequence: held-out example `index` of the run's task, or any tokens.
  void choose(std::uint64_t index) { choose(trainer_->task().example(trainer_->seed(), index, Split::held_out)); }
  void choose(Example example) { example_ = std::move(example); }
  const Example& example() const { return example_; }

  /// Spectra of every `ska` and `koopman_mlp`. Modes take their numbers from `numbered`; null: by modulus.
  std::shared_ptr<const Spectra> spectra(const Spectra* numbered);
  /// The recurrent form of the whole model with the states of part `layer` (-1: none). After token `scale_kept_behind`
  /// layers keep their scale (LayerState::keeps_scale; -1: never). Modes are numbered as in `spectra`.
  std::shared_ptr<const Trace> trace(int layer, int scale_kept_behind = -1, const Spectra* numbered = nullptr);
  /// Equivalent attention of part `layer` over the first tokens; without heads if it is not defined.
  std::shared_ptr<const TokenWeights> token_weights(int layer);
  /// Solvers on the ridge systems of part `layer`, or of the first part that has some; gates.
  std::shared_ptr<const SolverView> solvers(int layer);
  /// The memory of training on this sequence; null for a model without one.
  std::shared_ptr<const MemoryView> memory();
  /// First part of kind `ska`, or -1.
  int first_ska() const;

 private:
  void inspected_sequence();
  /// Copies a token's numbers from the device; what follows from them is computed later (TraceDecomposition).
  void read_token(int part, const Tensor& logits, const LayerState* state, Trace& trace, TokenStep& step,
                  struct TokenNumbers& numbers) const;
  /// Pictures of the heads of a part at token `t`, within a limit for all tokens.
  std::vector<std::vector<StepPicture>> step_pictures(int part, std::size_t t, const Trace& trace) const;

  Trainer* trainer_;
  Tape& tape_;
  Example example_;
};

}  // namespace afterglow
