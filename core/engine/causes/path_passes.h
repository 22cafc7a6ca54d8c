// What goes from one part to another alone: the receiver reads the stream with what the sender adds in the clean run,
// everything else stays corrupted, and only the receiver's own answer goes on.
#pragma once
#include <span>
#include <vector>

#include "core/engine/causes/hook_passes.h"

namespace afterglow {

/// Parts of a path: 0 is the embedding, i + 1 is branch i, the number of branches + 1 is the head.
class PathPasses {
 public:
  /// `places` has read the pair. All of it must outlive the passes.
  PathPasses(Model& model, Tape& tape, DType dtype, const HookPasses& places)
      : model_(&model), tape_(&tape), dtype_(dtype), places_(&places) {}

  /// False where a layer's residual is its own, so that nothing can be told from the stream alone.
  bool has_paths() const;
  /// Logits at the asked token, a run for each sender before the receiver, with its clean addition taken `share` times.
  std::vector<std::vector<double>> run(const SequencePair& pair, std::span<const std::size_t> senders,
                                       std::size_t receiver, double share) const;

 private:
  const HookValues& place(const std::string& name) const;
  const HookValues& sent_by(std::size_t sender) const;
  Tensor stream_before(std::size_t branch, std::span<const std::size_t> senders, double share) const;
  Tensor context(const SequencePair& pair, std::size_t rows) const;

  Model* model_;
  Tape* tape_;
  DType dtype_;
  const HookPasses* places_;
};

}  // namespace afterglow
