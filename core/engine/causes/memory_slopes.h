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
    std::size_t numbers = 0;        ///< of one token
    std::vector<double> change{};   ///< [T, numbers], clean - corrupted; until the slopes are known
    std::vector<double> carried{};  ///< [T, parts]: change times slope of the measure in the corrupted run
  };
  using HeldTensors = std::map<std::string, HeldTensor, std::less<>>;

  bool can_be_recorded(std::int64_t tokens) const;
  void step_both(const SequencePair& pair);
  static void take_sums(HeldTensor& held, const std::vector<double>& slope);
  void find_slopes(const SequencePair& pair);
  Tensor upload_tokens(const std::vector<std::int32_t>& values, const Shape& shape) const;

  Model* model_;
  Tape* tape_;
  DType dtype_;
  std::vector<HeldTensors> branches_;
  std::vector<double> clean_logits_, corrupted_logits_;  // of the recurrent form, at the asked token
  double reach_ = 0;                                     // of the measure, from corrupted to clean
};

}  // namespace afterglow
