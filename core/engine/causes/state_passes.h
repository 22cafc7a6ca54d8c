// Runs both sequences token by token in the recurrent form, and copies states from one to the other.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "core/engine/inspection/sequence_pair.h"
#include "core/engine/training/trainer.h"
#include "core/models/model.h"

namespace afterglow {

/// A part of a layer's state that is replaced after a token.
struct StateCell {
  std::size_t branch = 0;              ///< index into Model::branches
  std::vector<std::string> tensors{};  ///< of its state
  int token = 0;
  int head = -1;            ///< -1: every head
  bool is_control = false;  ///< inserts the run's own state
  double share = 1;         ///< of the difference, from the corrupted state to the clean one
};

/// Whether a state tensor [B, heads, ..] separates the heads.
bool holds_heads(const Tensor& tensor, std::int64_t heads);

/// Parts of a layer's state that can be replaced separately.
struct StateParts {
  std::string name;  ///< "all", "C", "convolution"
  std::vector<std::string> tensors;
  bool has_heads = true;  ///< whether each of them separates its heads
};
/// Everything first, then matrices and convolutions separately if there are several tensors; empty for a layer without
/// a state.
std::vector<StateParts> state_parts(const Layer& layer, Backend& backend, DType dtype);

/// The same for a part of the trainer's model; empty if it is no layer.
std::vector<StateParts> state_parts(const Trainer& trainer, int layer);
/// The wanted part if it has a state, else the last one that has; -1 without one.
int layer_with_memory(const Trainer& trainer, int wanted);

/// A state tensor of one head on the host.
struct HeldMatrix {
  std::string name;
  std::size_t rows = 0, columns = 0;
  std::vector<double> clean, corrupted;
};

/// Selects matrices to be read during the run, and holds them.
struct HeldHead {
  std::size_t branch = 0;  ///< index into Model::branches
  int head = 0, token = 0;
  std::vector<HeldMatrix> matrices{};
};

class StatePasses {
 public:
  StatePasses(Model& model, Tape& tape, DType dtype) : model_(&model), tape_(&tape), dtype_(dtype) {}

  /// Logits at the queried token of the clean run, of the corrupted one, and of corrupted ones with one cell each;
  /// `seen`, if given, receives the state matrices of one head of both runs after a token.
  std::vector<std::vector<double>> run(const SequencePair& pair, std::span<const StateCell> cells,
                                       HeldHead* seen = nullptr) const;

 private:
  void read_matrices(const ModelState& state, HeldHead& seen) const;
  Tensor between(const Tensor& from, const Tensor& to, double share) const;
  void put(ModelState& state, const StateCell& cell, std::int64_t row) const;

  Model* model_;
  Tape* tape_;
  DType dtype_;
};

}  // namespace afterglow
