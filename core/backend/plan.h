// What a call of a kernel needs, asked before it by shapes and types alone (`Kernels::plan`).
#pragma once
#include <cstdint>
#include <span>

#include "core/tensor/tensor.h"

namespace afterglow {

/// How a value is kept while it waits for its gradient. `narrow`: all that reads it takes bfloat16, too, each number
/// once (core/ops/README.md lists these operations): a GPU that computes in that precision may keep it so.
enum class Storage { wide, narrow };

/// Made by the back end; what the caller reserves, and what the back end holds itself.
struct Plan {
  Storage stored = Storage::wide;  ///< of the inputs and results that the call's comment names, and of their gradients
  std::int64_t row_stride = 0;     ///< preferred for the result of a projection: its columns, or a little more
  std::int64_t kept = 0;  ///< numbers that the forward pass leaves for the backward pass; of SKA: with a head's state
  std::int64_t workspace = 0;  ///< elements that the backward pass writes (of Sessa's solve: both passes)
  /// Bytes that the back end holds in addition, until a kernel needs more: operands rounded or split for the matrix
  /// units, states between chunks of a scan. The larger of forward and backward.
  std::int64_t operands = 0;
  bool unit_heads = false;  ///< the convolution can divide heads by their length
};
/// Of any call that needs nothing.
Plan no_needs(const auto&...) { return {}; }

/// A product a b: operands.
struct ProductCall {
  Tensor a, b;
};

/// Projections of one input, as by `linear_forward_many`. `row_stride` is that of the matrix whose column ranges are
/// the results; 0 stands for their columns. kept: float32 numbers of a `KeptInput`, 0 where keeping it does not pay;
/// for x in bfloat16 it holds the rounded weights instead, unless `hold_weights` keeps those of the whole model.
/// operands: 0 where the projections are not batched. stored: of results whose readers all accept bfloat16.
struct ProjectionCall {
  Tensor x;
  std::span<const Tensor> weights;
  std::int64_t row_stride = 0;
  Tensor kept = {};  ///< what is kept already
};

/// The operation that makes x for projections which it does not know; `bounded`: whether x has a known bound. kept: as
/// of a projection.
struct RoundingCall {
  Tensor x;
  bool bounded = false;
};

/// Weights of a whole model, [count], that `hold_weights` rounds for the products; kept: the float32 numbers that hold
/// them, 0 where each projection rounds its own weights, or none does.
struct PinningCall {
  Tensor values;
};

/// A convolution of x [B,T,c] without history, with heads of so many channels. kept: elements of `before`, 0 where the
/// backward pass recomputes the sums.
struct ConvolutionCall {
  Tensor x, weight;
  std::int64_t head_width = 0;
};

/// Queries [B,Tq,H,D] and keys [B,Tk,Hkv,D]. stored: of queries, keys, values and y.
struct AttentionCall {
  Tensor q, k;
};

}  // namespace afterglow
