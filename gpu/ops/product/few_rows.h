// Projections of a few rows with what stands in front of and behind them while decoding: calls that wait on the stream
// for one that is computed in the same launch.
#pragma once
#include <functional>
#include <span>

#include "core/backend/kernels.h"

namespace afterglow {

class CudaBackend;

/// The arguments of `conv_with_steps`.
struct StepsCall {
  Convolution conv;
  Tensor y;
  StepSizes steps;
  Tensor sizes;
};

/// Projections of few rows; `launch` also computes what it is given.
struct WaitingProjections {
  Tensor result;  ///< of the first
  std::function<void(const StepsCall*)> launch;
};

/// results[i] = x weights[i]^T + biases[i] for up to four rows, the weights in float32 or all in bfloat16; false where
/// x has more, or rows cannot be read in vectors.
bool few_row_projections(const CudaBackend& backend, const Tensor& x, std::span<const Tensor> weights,
                         std::span<const Tensor> biases, std::span<const Tensor> results);
/// A convolution with history of one token each, and step sizes, of columns of the projection that waits; false where
/// they are not.
bool convolve_few_rows(const CudaBackend& backend, const StepsCall& call);

}  // namespace afterglow
