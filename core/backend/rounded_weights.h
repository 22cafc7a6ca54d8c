// Weights that are rounded to 16 bits all at once for the projections of a step, where each would round its own.
#pragma once
#include <cstddef>
#include <span>

#include "core/tensor/tensor.h"

namespace afterglow {

struct RoundedWeights {
  Tensor values;   ///< [count] float32: where the weights lie
  Tensor rounded;  ///< what a back end makes of them (`PinningCall`); undefined: nothing

  /// Whether these matrices are stored there side by side, with as much padding after them as their rows lack of whole
  /// eights, which products take at once.
  bool cover(std::span<const Tensor> weights) const {
    if (!rounded.defined() || weights.empty()) return false;
    const auto *begin = values.as<float>(), *next = weights.front().as<float>();
    const std::ptrdiff_t first = next - begin;
    for (const Tensor& weight : weights) {
      if (weight.as<float>() != next || !weight.contiguous() || weight.dtype != DType::f32) return false;
      next += weight.elements();
    }
    const Tensor& last = weights.back();
    const std::ptrdiff_t lacking = (8 - last.rows() % 8) % 8 * last.columns();
    return first >= 0 && first % 8 == 0 && next - begin + lacking <= values.elements();
  }
};

}  // namespace afterglow
