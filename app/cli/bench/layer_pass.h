// One layer on sequences of fixed numbers, forward and backward: the work that benchmarks of layers run.
#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "core/engine/training/pinned_array.h"
#include "core/layers/layer_kind.h"

namespace afterglow {

/// Returns when the back end has done all work.
double seconds_of(const std::function<void()>& work, Backend& backend);

class LayerPass {
 public:
  LayerPass(const LayerKind& kind, const nlohmann::json& config, std::int64_t batch, std::int64_t tokens,
            Backend& backend);
  void run();
  /// As a graph, with all memory reserved before.
  std::unique_ptr<DeviceGraph> recorded();
  /// Bytes of everything except weights, input and the gradient that starts the backward pass.
  std::size_t held_bytes() const { return arena_.capacity(); }
  std::size_t used_bytes() const { return arena_.used(); }
  /// Numbers in the layer's matrices.
  double weights() const;
  /// Operations of the products with the weights and of their gradients, counted.
  double flops() const { return 6.0 * static_cast<double>(x_.device().shape.rows()) * weights(); }

 private:
  ParameterStore store_;
  std::unique_ptr<Layer> layer_;
  PinnedArray x_, dy_;
  Arena arena_;
  Tape tape_;
};

}  // namespace afterglow
