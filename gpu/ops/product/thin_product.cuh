// Two projections of one input to a few numbers, and their gradients, in one kernel each. A function that returns false
// has done nothing: there are not two projections, or they are not thin.
#pragma once
#include <span>

#include "core/tensor/tensor.h"

namespace afterglow {

class CudaBackend;

/// results[i] = x weights[i]^T.
bool thin_projections(const CudaBackend& backend, const Tensor& x, std::span<const Tensor> weights,
                      std::span<const Tensor> results);
/// dx = sum over i of dresults[i] weights[i].
bool thin_input_gradient(const CudaBackend& backend, std::span<const Tensor> dresults, std::span<const Tensor> weights,
                         const Grad& dx);
/// dweights[i] = dresults[i]^T x, for thin results.
bool has_thin_gradients(std::span<const Tensor> dresults, const Tensor& x, std::span<const Grad> dweights);
void thin_weight_gradients(const CudaBackend& backend, std::span<const Tensor> dresults, const Tensor& x,
                           std::span<const Grad> dweights);

}  // namespace afterglow
