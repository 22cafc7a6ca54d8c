// To first order, what every part of every memory carries: one reverse pass of the corrupted sequence, recorded as it
// is stepped, and one run of both sequences token by token.
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

  /// Finds the slopes of all layers that can tell theirs (Layer::state_slopes); of none where a layer of the model
  /// answers otherwise than its steps do and has no form that could be recorded, nor of a model whose memories hold
  /// more numbers than are kept.
  void read(const SequencePair& pair);
  bool knows(std::size_t branch) const { return branch < branches_.size() && !branches_[branch].empty(); }
  /// The share of the answer that comes back, to first order, when the clean memory stands after the cell's token,
  /// which is before the asked one. Only of a branch that is known; NaN where both sequences answer the same.
  double attributed(const StateCell& cell) const;

 private:
  /// One tensor of a state, token by token.
  struct HeldTensor {
    std::size_t parts = 1;          ///< heads, where it holds them apart
    std::vector<double> slope{};    ///< [T, numbers], of the measure in the corrupted run; until it is carried
    std::vector<double> carried{};  ///< [T, parts]: clean - corrupted, times the slope
  };
  using HeldTensors = std::map<std::string, HeldTensor, std::less<>>;

  bool can_be_recorded(std::int64_t tokens) const;
  void find_slopes(const SequencePair& pair);
  void step_both(const SequencePair& pair);
  /// Takes the known tensors' heads apart; how many numbers they hold for both sequences.
  std::int64_t lay_out(const ModelState& state);
  template <class Use>
  void for_each_known(const ModelState& state, const Use& use);
  void carry(const ModelState& state, const std::vector<double>& states, std::size_t token);
  Tensor upload_tokens(const std::vector<std::int32_t>& values, const Shape& shape) const;

  Model* model_;
  Tape* tape_;
  DType dtype_;
  std::vector<HeldTensors> branches_;
  double reach_ = 0;  // of the measure, from corrupted to clean, as the recurrent form answers
};

}  // namespace afterglow
