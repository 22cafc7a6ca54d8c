// First-order patching of states: one backward pass through the recorded steps of the corrupted sequence, and one run
// of both sequences token by token.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/engine/causes/state_passes.h"

namespace afterglow {

class MemorySlopes {
 public:
  MemorySlopes(Model& model, Tape& tape, DType dtype) : model_(&model), tape_(&tape), dtype_(dtype) {}

  /// Computes the gradients for all layers that support it (Layer::state_slopes); for none if some layer's steps differ
  /// from its parallel form and have no recordable form, or if the states are too large to store.
  void read(const SequencePair& pair);
  bool knows(std::size_t branch) const { return branch < branches_.size() && !branches_[branch].empty(); }
  /// First-order share of the answer that is restored if the clean state replaces the corrupted one after the cell's
  /// token, which precedes the queried one. Only for a branch with gradients; NaN if both sequences give the same
  /// answer.
  double attributed(const StateCell& cell) const;

 private:
  /// One tensor of a state, token by token.
  struct HeldTensor {
    std::size_t parts = 1;  ///< number of heads if the tensor separates them
    std::vector<double>
        slope{};  ///< [T, numbers], gradient of the measure in the corrupted run; freed once `carried` is known
    std::vector<double> carried{};  ///< [T, parts]: (clean - corrupted) times the gradient
  };
  using HeldTensors = std::map<std::string, HeldTensor, std::less<>>;

  bool can_be_recorded(std::int64_t tokens) const;
  void find_slopes(const SequencePair& pair);
  void step_both(const SequencePair& pair);
  /// Separates the tensors' heads; returns the number of values for both sequences.
  std::int64_t lay_out(const ModelState& state);
  template <class Use>
  void for_each_known(const ModelState& state, const Use& use);
  void carry(const ModelState& state, const std::vector<double>& states, std::size_t token);

  Model* model_;
  Tape* tape_;
  DType dtype_;
  std::vector<HeldTensors> branches_;
  double reach_ = 0;  // difference of the measure between clean and corrupted in the recurrent form
};

}  // namespace afterglow
