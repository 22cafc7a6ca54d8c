// The one list of numeric kernels. CpuBackend (Eigen and plain loops, float32 and float64) is complete and is the
// truth; CudaBackend runs the same list on the GPU in float32. The signature of a kernel is written only in
// kernel_list.inc, which each class includes. Kernels check nothing: shapes are checked once, in core/ops.
//
// Conventions: B batch, T sequence, d width, H heads, r/N/D/P widths of a head. Tensors are contiguous unless a comment
// says "rows may be strided". Gradients are written through Grad: assign or accumulate, skipped when not wanted.
// Every kernel gives the same bits for the same input, whatever the number of threads: reductions have a fixed order.
#pragma once
#include <cstdint>
#include <limits>
#include <span>

#include "core/backend/plan.h"
#include "core/backend/ridge.h"
#include "core/backend/rotary.h"
#include "core/backend/router.h"
#include "core/backend/scan.h"
#include "core/tensor/tensor.h"

namespace afterglow {

/// The rounded copy of an input that its projections keep for their backward pass: memory for it, or undefined.
/// `is_filled`: the operation that made the input has written it, and the projections read it in the forward pass, too.
struct KeptInput {
  Tensor numbers;
  bool is_filled = false;
};

/// What the backward pass through several projections of one input takes and gives: matrices as in
/// `Backend::linear_forward_many`, gradients in the order of their matrices; `dbiases` may be empty.
struct LinearBackward {
  std::span<const Tensor> dresults, weights;
  Tensor x, kept;  ///< kept: the numbers of a `KeptInput`
  std::span<const Grad> dweights, dbiases;
  Grad dx;
};

enum class Unary { silu, sigmoid, softplus, tanh, gelu, exp, relu, elu_plus_one, sine };

/// Between which ends a time step may lie; where one binds, no gradient flows.
struct StepRange {
  double least = 0, most = std::numeric_limits<double>::infinity();
};

/// What an RMS norm divides: x, x + z, or x silu(z) (Mamba-2's gated norm).
enum class Normed { plain, sum, gated };

/// y = u / sqrt(mean(u^2) + eps) * weight. z is undefined in a plain norm. `sum` receives x + z, inverse [rows] is
/// saved for the gradient, and `rounded`, where it is defined, becomes the `KeptInput` of y's projections. y may be
/// bfloat16; all of a gated norm may be, and rows of its z may be strided.
struct RmsNorm {
  Normed kind = Normed::plain;
  Tensor x, z, weight;
  double eps = 0;
  Tensor sum, y, inverse, rounded;
};
/// Gradients of a plain or gated norm from that of y, in the order in which they are written; a norm of a sum is the
/// plain one of `sum`. Without a gate `base`, where it is defined, is added to dx, and `narrow` becomes dx in bfloat16.
struct RmsNormGrads {
  Tensor dy, base;
  Grad x, z;
  Tensor narrow;
  Grad weight;
};

/// Step sizes, softplus(x + bias) within `range`, as by `softplus_bias`.
struct StepSizes {
  Tensor x, bias;
  StepRange range;
};
struct StepSizesGrads {
  Grad x, bias;
};

/// A convolution, as by `causal_conv`; in the backward pass without history.
struct Convolution {
  Tensor x, weight, bias, before;
  Tensor history = {};
};
struct ConvolutionGrads {
  Grad x, weight, bias;
};

/// Heads of so many neighbouring channels, each divided by its length + eps as by `unit_norm`; none of width 0.
struct UnitHeads {
  std::int64_t width = 0;
  double eps = 0;
};

/// Lower ends of Mamba-3's rates and time steps; where one binds, no gradient flows.
struct StepFloors {
  double rate = 0, step = 0;
};
/// What a vector becomes when its pairs (2i, 2i+1) are complex numbers k_i (Echo appendix B): first |k_i|^2 of every
/// pair, then Re k_i^2, Im k_i^2 pair by pair. At least one of the two.
struct PairSquares {
  bool invariant = false, harmonics = false;
  std::int64_t width(std::int64_t columns) const { return columns / 2 * (invariant + 2 * harmonics); }
};

// Inputs, saved values and gradients of the larger cores, each described in its own header in this folder.
struct ChebyshevConfig;  // chebyshev.h
struct ChebyshevInputs;
struct ChebyshevSaved;
struct ChebyshevGrads;
struct ChebyshevState;
struct DeltaInputs;  // delta.h
struct DeltaGrads;
struct KalmanInputs;  // kalman.h
struct KalmanState;
struct KalmanGrads;
struct FeedbackInputs;  // feedback.h
struct FeedbackSaved;
struct FeedbackGrads;

/// Hyperparameters of one AdamW step, held in the back end's memory so that a captured step reads them afresh.
/// Layout of the f64 tensor [6]: learning rate, beta1, beta2, epsilon, weight decay, clip norm (0: no clipping); the
/// bias corrections come from the step counter tensor i32 [1], which the kernel increments.
struct AdamwTensors {
  Tensor weights, gradients, first_moment, second_moment;  ///< flat, [n]
  Tensor decay_mask;  ///< u8 [n / block]: 1 where weight decay acts, per block of `parameter_block` elements
  Tensor hyperparameters;
  Tensor step;
  Tensor gradient_norm;  ///< [1], same type as the weights: global norm; a non-finite one leaves everything untouched
};
inline constexpr std::int64_t parameter_block = 64;  ///< parameters are padded to whole blocks in the flat buffers

class Kernels {
 public:
  virtual ~Kernels() = default;

  // plan.h
  virtual Plan plan(const ProjectionCall& call) const = 0;
  /// Needs the shapes [B,T,H,r] and [B,T,H,P] of z and v. stored: of z, q, v, which may be strided then, [B,T,H r] and
  /// [B,T,H P], and of y.
  virtual Plan plan(const RidgeConfig& config, const RidgeInputs& in) const = 0;
  /// Needs the shape of q. stored: of q, k, v, y and the saved states.
  virtual Plan plan(const ChebyshevConfig& config, const ChebyshevInputs& in) const = 0;
#define AFTERGLOW_PLAN \
  { return no_needs(call); }
#include "core/backend/plan_list.inc"
  /// Index of the first NaN or infinity, -1 when all are finite. Waits for the result.
  virtual std::int64_t first_non_finite(const Tensor& x) = 0;

#define AFTERGLOW_KERNEL = 0
#include "core/backend/kernel_list.inc"
};

}  // namespace afterglow
