// Path patching: the receiver reads the stream with the sender's clean contribution, everything else stays corrupted,
// and only the receiver's changed output continues.
#pragma once
#include <span>
#include <vector>

#include "core/engine/causes/hook_passes.h"

namespace afterglow {

/// Ends of a path: 0 is the embedding, i + 1 is branch i, the number of branches + 1 is the head.
class PathPasses {
 public:
  /// `places` has read the pair. All arguments must outlive this object.
  PathPasses(Model& model, Tape& tape, DType dtype, const HookPasses& places)
      : model_(&model), tape_(&tape), dtype_(dtype), places_(&places) {}

  /// False if a layer adds its residual itself, so that contributions cannot be separated.
  bool has_paths() const;
  /// Logits at the queried token, a run for each sender before the receiver, with its clean contribution scaled by
  /// `share`.
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
