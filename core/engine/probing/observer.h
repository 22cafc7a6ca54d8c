// Looks into a trained model with one probe sequence: Koopman spectra of the whole sequence, and a trace of the
// recurrent form token by token. It reads weights and never changes them.
#pragma once
#include <memory>

#include "core/engine/observation/memory_view.h"
#include "core/engine/observation/observation.h"
#include "core/engine/observation/solver_view.h"
#include "core/engine/training/trainer.h"
#include "core/layers/capture_reader.h"

namespace afterglow {

class Observer {
 public:
  explicit Observer(Trainer& trainer);
  ~Observer();

  /// The probe: held-out example `index` of the run's task, or any sequence of tokens.
  void choose(std::uint64_t index);
  void choose(Example example);
  const Example& example() const { return example_; }

  /// Spectra of every `ska` and `koopman_mlp`. Modes take their numbers from `numbered`; without it they are numbered
  /// by modulus.
  std::shared_ptr<const Spectra> spectra(const Spectra* numbered);
  /// The recurrent form of the whole model; the state of part `layer` is recorded (-1: none). Behind token
  /// `scale_kept_behind` no layer's scale changes (LayerState::keeps_scale; -1: all run on).
  /// Modes have their numbers of `spectra`.
  std::shared_ptr<const Trace> trace(int layer, int scale_kept_behind = -1, const Spectra* numbered = nullptr);
  /// Equivalent attention of part `layer` over the first tokens of the probe; without heads where the part has none.
  std::shared_ptr<const TokenWeights> token_weights(int layer);
  /// Ridge systems of part `layer`, or of the first part that solves any, raced; gates.
  std::shared_ptr<const SolverView> solvers(int layer);
  /// The memory of training in the probe sequence; null for a model without one.
  std::shared_ptr<const MemoryView> memory();
  /// First part of kind `ska`, or -1.
  int first_ska() const;

 private:
  void probe_sequence();
  void add_mlp(int part, Spectra& spectra) const;
  void add_states(int part, const CaptureReader& read, Spectra& spectra) const;
  /// What the device has left of a token; what follows from that is filled in later (trace_decomposition.h).
  void read_token(int part, const Tensor& logits, const LayerState* state, Trace& trace, TokenStep& step,
                  struct TokenNumbers& numbers) const;
  /// What the heads of a part did with token `t`, as far as there is room for all tokens' pictures.
  std::vector<std::vector<StepPicture>> step_pictures(int part, std::size_t t, const Trace& trace) const;

  Trainer* trainer_;
  Tape& tape_;
  Example example_;
  std::unique_ptr<class PinnedArray> tokens_, context_;  // [1, T] of the probe
};

}  // namespace afterglow
