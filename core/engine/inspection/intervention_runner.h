// Runs the model on one sequence and a batch of held-out ones, with and without interventions. It never changes weights
// and uses a tape of its own, so training gives the same bits with and without it.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/analyses/inspected/inspected_view.h"
#include "core/engine/observation/observation.h"
#include "core/engine/training/inspected_example.h"
#include "core/engine/training/trainer.h"
#include "core/layers/captured_layer.h"

namespace afterglow {

class PinnedArray;

/// Number of held-out sequences for the accuracy; smaller for a large model, so that the result takes only seconds.
std::int64_t held_out_sequences(const Trainer& trainer);

/// Heads of a layer that a pass computes with zeros where they are read out. A layer of parts reads out one part after
/// the other, whose heads are counted through.
struct HeadsOff {
  std::string scope;     ///< of the layer
  int heads = 0;         ///< of the layer
  std::vector<int> off;  ///< which of them
  int next = 0;          ///< the first one of the part that is read out next
  /// Called at every value of a pass that is computed unfused.
  void see(Backend& backend, const Hooked& at);
};

class InterventionRunner {
 public:
  explicit InterventionRunner(Trainer& trainer);
  ~InterventionRunner();

  /// The layers of the model with an operator, learned modes or several heads.
  const std::vector<InterventionTarget>& intervention_targets() const { return intervention_targets_; }
  /// The sequence that a setup describes. Throws Error(bad_input) for tokens outside the vocabulary or a wrong length.
  Example sequence_of(const InspectionSetup& setup) const { return inspected_example(setup, *trainer_); }
  /// That sequence and `count` tokens that the model writes after it, always the most probable one.
  std::vector<int> continued(const InspectionSetup& setup, int count) const;
  /// That sequence and the token that is most probable after it with the setup's interventions, read in the parallel
  /// form as the answers are; `numbered` as in `inspect`.
  std::vector<int> with_next_token(const InspectionSetup& setup, const Spectra* numbered);
  /// Answers, accuracy and operators. `traced` is the part whose token weights are read. Modes take their numbers from
  /// `numbered`. The accuracies of `counted`, if given, are used instead of measuring them, which takes most of the
  /// time.
  std::shared_ptr<const InspectedView> inspect(const InspectionSetup& setup, int traced, const Spectra* numbered,
                                               const InspectedView* counted = nullptr);
  /// The theorems for one head of part `layer` (for any other part: of the first `ska`); nullptr without such a layer.
  std::shared_ptr<const TheoryView> theory(const InspectionSetup& setup, int layer, int head);
  /// The gradient of the sequence's loss at every depth, and its bounds.
  std::shared_ptr<const DepthView> depth(const InspectionSetup& setup);
  /// Drops cached results without interventions after a change of weights or settings.
  void forget();

 private:
  using Edits = std::map<std::size_t, LayerEdit>;  // by branch
  struct Sequences;
  struct Answers {
    std::vector<std::int64_t> tokens;   // whose answers were read, ascending
    std::vector<double> probabilities;  // [tokens, vocab]
  };
  void load(const InspectionSetup& setup);
  Edits edits_of(const Interventions& interventions, const Spectra* numbered) const;
  Var forward(const Sequences& input, const Edits& edits, bool capturing);
  Var stream_before(const Sequences& input, std::size_t branch);
  Answers answers(const Edits& edits, const Example& example);
  double accuracy(const Edits& edits);
  void read_heads(const InspectionSetup& setup, const Edits& edits, const Spectra* numbered, InspectedView& view);

  Trainer* trainer_;
  Tape& tape_;
  std::vector<InterventionTarget> intervention_targets_;
  std::shared_ptr<const std::vector<std::string>> labels_;
  std::unique_ptr<Sequences> sequence_, batch_;
  std::unique_ptr<PinnedArray> stream_;     // of the batch, input of branch `stream_branch_`; edits do not change it
  std::size_t stream_branch_ = 0;           // 0: unknown
  std::vector<std::int32_t> plain_tokens_;  // the tokens of `plain_`
  std::optional<Answers> plain_;            // without interventions, at `step_`
  std::optional<double> plain_accuracy_;
  std::int64_t step_ = -1;
};

}  // namespace afterglow
