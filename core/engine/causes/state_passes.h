// Both sequences token by token, in the recurrent form, with the memory of the one put into the other on the way.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "core/engine/probing/sequence_pair.h"
#include "core/engine/training/trainer.h"
#include "core/models/model.h"

namespace afterglow {

/// A part of a layer's memory that is taken over after a token.
struct StateCell {
  std::size_t branch = 0;              ///< of Model::branches
  std::vector<std::string> tensors{};  ///< of its state
  int token = 0;
  int head = -1;            ///< -1: every head
  bool is_control = false;  ///< the run's own memory is put where it is
  double share = 1;         ///< of the way from the corrupted memory to the clean one
};

/// Whether a tensor of a state [B, heads, ..] holds each head's numbers apart.
bool holds_heads(const Tensor& tensor, std::int64_t heads);

/// What of a layer's state stands for itself.
struct StateParts {
  std::string name;  ///< "all", "C", "convolution"
  std::vector<std::string> tensors;
  bool has_heads = true;  ///< whether each of them holds its heads apart
};
/// Everything first, then the matrices and the convolutions where there is more than one tensor; empty for a layer
/// without a memory.
std::vector<StateParts> state_parts(const Layer& layer, Backend& backend, DType dtype);

/// The same of a part of the trainer's model; empty for what is no layer.
std::vector<StateParts> state_parts(const Trainer& trainer, int layer);
/// The wanted part of the model where it has a memory, else the last one that has; -1 without any.
int layer_with_memory(const Trainer& trainer, int wanted);

/// A state tensor of one head on the host.
struct HeldMatrix {
  std::string name;
  std::size_t rows = 0, columns = 0;
  std::vector<double> clean, corrupted;
};

/// Where to look on the way, and what was seen there.
struct HeldHead {
  std::size_t branch = 0;  ///< of Model::branches
  int head = 0, token = 0;
  std::vector<HeldMatrix> matrices{};
};

class StatePasses {
 public:
  StatePasses(Model& model, Tape& tape, DType dtype) : model_(&model), tape_(&tape), dtype_(dtype) {}

  /// Logits at the asked token of the clean run, of the corrupted one, and of corrupted ones with one cell each.
  std::vector<std::vector<double>> run(const SequencePair& pair, std::span<const StateCell> cells) const {
    return run(pair, cells, nullptr);
  }
  /// The same, and of both runs the matrices that one head of a branch holds after a token.
  std::vector<std::vector<double>> run(const SequencePair& pair, std::span<const StateCell> cells,
                                       HeldHead& seen) const {
    return run(pair, cells, &seen);
  }

 private:
  std::vector<std::vector<double>> run(const SequencePair& pair, std::span<const StateCell> cells,
                                       HeldHead* seen) const;
  void look(const ModelState& state, HeldHead& seen) const;
  Tensor between(const Tensor& from, const Tensor& to, double share) const;
  void put(ModelState& state, const StateCell& cell, std::int64_t row) const;

  Model* model_;
  Tape* tape_;
  DType dtype_;
};

}  // namespace afterglow
