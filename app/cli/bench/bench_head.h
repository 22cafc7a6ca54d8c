// `afterglow bench head` measures an output head over a large vocabulary and its loss, forward and backward.
#pragma once
#include <memory>

#include "core/engine/training/pinned_array.h"
#include "core/ops/ops.h"

namespace afterglow {

struct HeadCase {
  const char* name;
  std::int64_t batch, tokens, width, vocabulary;
  bool in_chunks;  ///< false: all logits at once
  bool large;      ///< takes half a minute on a CPU
};

inline constexpr HeadCase head_cases[] = {
    {"head B4 T256 d448 V32000", 4, 256, 448, 32000, true, false},
    {"head B4 T256 d448 V32000, whole logits", 4, 256, 448, 32000, false, false},
    {"head B8 T2048 d448 V32000", 8, 2048, 448, 32000, true, true},
    {"head B8 T2048 d448 V32000, whole logits", 8, 2048, 448, 32000, false, true}};

class HeadBench {
 public:
  HeadBench(const HeadCase& sizes, Backend& backend);
  /// One forward and one backward pass.
  void run() { graph_->run(); }
  /// Operations of the three products.
  double flops() const;
  /// Bytes that a pass holds in addition to the head's weight, its input and their gradients.
  std::size_t held_bytes() const { return arena_.capacity(); }

 private:
  HeadCase sizes_;
  PinnedArray hidden_, weight_, targets_, one_;
  Arena arena_;
  Tape tape_;
  std::unique_ptr<DeviceGraph> graph_;
};

}  // namespace afterglow
