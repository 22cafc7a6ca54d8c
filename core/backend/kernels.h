// The one list of numeric kernels. CpuBackend (Eigen and plain loops, float32 and float64) is complete and is the
// truth; CudaBackend runs the same list on the GPU in float32. A signature is written only here: CMake makes the
// declarations of both classes from it (kernel_overrides.cmake). Kernels check nothing: shapes are checked once, in
// core/ops.
//
// Conventions: B batch, T sequence, d width, H heads, r/N/D/P widths of a head. Tensors are contiguous unless a comment
// says "rows may be strided". Gradients are written through Grad: assign or accumulate, skipped when not wanted.
// Every kernel gives the same bits for the same input, whatever the number of threads: reductions have a fixed order.
#pragma once
#include <cstdint>
#include <limits>
#include <span>

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

  // Bytes of workspace that a back end holds for a kernel in addition to its tensors, until a kernel that needs more
  // replaces it: operands rounded or split for the matrix units, and states between chunks of a scan. The larger of
  // forward and backward.
  virtual std::int64_t gemm_operands(const Tensor& a, const Tensor& b) const = 0;
  /// 0 where the projections are not batched.
  virtual std::int64_t linear_operands(const Tensor& x, std::span<const Tensor> weights, const Tensor& kept) const = 0;
  /// Of queries [B,Tq,H,D] and keys as `attention` takes them; asks for shapes alone.
  virtual std::int64_t attention_operands(const Tensor& q, const Tensor& k) const = 0;
  virtual std::int64_t ssd_scan_operands(const ScanInputs& in) const = 0;
  virtual std::int64_t delta_scan_operands(const DeltaInputs& in) const = 0;
  virtual std::int64_t feedback_solve_operands(const FeedbackInputs& in) const = 0;

  // Products. Matrices [rows, columns]; rows may be strided.
  /// c = alpha op(a) op(b) + beta c, where op transposes or not.
  virtual void gemm(bool transpose_a, bool transpose_b, double alpha, const Tensor& a, const Tensor& b, double beta,
                    const Tensor& c) = 0;
  /// Several projections of one input: results[i] = x weights[i]^T + biases[i]; an undefined bias counts as zero, and
  /// `biases` may be empty. x may be bfloat16, and so may the results, which are then column ranges of one matrix.
  /// Weights may be bfloat16 where the device `reads_narrow_weights`, as in `gemm` b, in `swiglu_gate_up` and in
  /// `gather_rows` a without b.
  virtual void linear_forward_many(const Tensor& x, std::span<const Tensor> weights, std::span<const Tensor> biases,
                                   std::span<const Tensor> results, const KeptInput& kept) = 0;
  /// The preferred row stride of a projection's result: the number of columns, or a little more where that aligns
  /// vector loads. Kernels may overwrite the padding after each row.
  virtual std::int64_t linear_row_stride(const Tensor& x, const Tensor& weight) const = 0;
  /// The type in which to store results of projections whose readers all accept bfloat16: that of x, or bfloat16 where
  /// the back end computes in that precision and the projections are large enough. Their gradients have the same type.
  /// `row_stride`: of the matrix whose column ranges are the results.
  virtual DType narrow_result(const Tensor& x, std::span<const Tensor> weights, std::int64_t row_stride) const = 0;
  /// How many float32 numbers a `KeptInput` has; 0 where keeping it does not pay. For x in bfloat16 it holds the
  /// rounded weights instead, unless `hold_weights` keeps those of the whole model.
  virtual std::int64_t linear_kept(const Tensor& x, std::span<const Tensor> weights) const = 0;
  /// The same for the operation that makes x, which does not know its projections; `bounded`: whether its values have a
  /// known bound.
  virtual std::int64_t rounded_numbers(const Tensor& x, bool bounded) const = 0;
  /// How many float32 numbers hold these weights, [count], rounded for the products (`hold_weights`); 0 where each
  /// projection rounds its own weights, or none does.
  virtual std::int64_t rounded_weights(const Tensor& values) const = 0;
  /// Pins the weights: until `release_weights` the caller queues nothing that writes `values`, so a kernel may prefetch
  /// them before the previous kernel has ended. The back end writes their rounded form into `rounded`, from which
  /// projections read it; with an undefined `rounded` each projection rounds its own.
  virtual void hold_weights(const Tensor& values, const Tensor& rounded) = 0;
  virtual void release_weights() = 0;
  /// The gradient of their input: c = sum over i of a[i] b[i], in the order of i.
  virtual void gemm_sum(std::span<const Tensor> a, std::span<const Tensor> b, const Grad& c) = 0;
  /// The gradients of their weights, dweights[i] = dresults[i]^T x, and biases, dbiases[i] = the sum of the rows of
  /// dresults[i], where wanted; `dbiases` may be empty.
  virtual void linear_gradients(std::span<const Tensor> dresults, const Tensor& x, std::span<const Grad> dweights,
                                std::span<const Grad> dbiases) = 0;
  /// The whole backward pass through such projections: dx as by `gemm_sum`, and `linear_gradients`.
  virtual void linear_backward(const LinearBackward& projections) = 0;
  /// Gate and up projection of a gated MLP (SwiGLU): g = x gate^T, u = x up^T, h = silu(g) u. x [n,d], gate, up [m,d],
  /// g, u, h [n,m].
  virtual void swiglu_gate_up(const Tensor& x, const Tensor& gate, const Tensor& up, const Tensor& g, const Tensor& u,
                              const Tensor& h) = 0;
  /// From y = h down^T back to g and u: with dh = dy down, dg = dh u silu'(g) and du = dh silu(g). dy [n,d], down
  /// [d,m], g, u, dg, du [n,m].
  virtual void swiglu_gate_up_backward(const Tensor& dy, const Tensor& down, const Tensor& g, const Tensor& u,
                                       const Tensor& dg, const Tensor& du) = 0;

  // Elementwise: tensors of one shape, unless said otherwise; rows may be strided in fill, copy, accumulate.
  /// x = value, which is rounded to the type of x.
  virtual void fill(const Tensor& x, double value) = 0;
  /// destination = source.
  virtual void copy(const Tensor& destination, const Tensor& source) = 0;
  /// destination = source, or += where it accumulates: a gradient that is passed on as it is. Both may be bfloat16.
  virtual void accumulate(const Tensor& source, const Grad& destination) = 0;
  /// out = a + b.
  virtual void add(const Tensor& a, const Tensor& b, const Tensor& out) = 0;
  /// out = factor a; its own gradient. Rows may be strided, and both may be bfloat16.
  virtual void scale(const Tensor& a, double factor, const Grad& out) = 0;
  /// out = a b. All may be bfloat16, as their gradients then.
  virtual void multiply(const Tensor& a, const Tensor& b, const Tensor& out) = 0;
  /// da = dout b, db = dout a.
  virtual void multiply_backward(const Tensor& a, const Tensor& b, const Tensor& dout, const Grad& da,
                                 const Grad& db) = 0;
  /// y = f(x), f being `kind`. x may be bfloat16, as dx then.
  virtual void unary(Unary kind, const Tensor& x, const Tensor& y) = 0;
  /// dx = dy f'(x); y is there for kinds whose slope follows from it.
  virtual void unary_backward(Unary kind, const Tensor& x, const Tensor& y, const Tensor& dy, const Grad& dx) = 0;
  /// y = silu(a) * b (SwiGLU); rows may be strided, and all may be bfloat16, as their gradients then.
  virtual void silu_multiply(const Tensor& a, const Tensor& b, const Tensor& y) = 0;
  virtual void silu_multiply_backward(const Tensor& a, const Tensor& b, const Tensor& dy, const Grad& da,
                                      const Grad& db) = 0;
  /// y = softplus(x + bias) within `range`. x [rows, n] strided, maybe bfloat16, as dx then; bias [n].
  virtual void softplus_bias(const Tensor& x, const Tensor& bias, const StepRange& range, const Tensor& y) = 0;
  virtual void softplus_bias_backward(const Tensor& x, const Tensor& bias, const StepRange& range, const Tensor& dy,
                                      const Grad& dx, const Grad& dbias) = 0;
  /// y = factor log sigmoid(x), the logarithm of a gate; and its gradient.
  virtual void log_sigmoid(const Tensor& x, double factor, const Tensor& y) = 0;
  virtual void log_sigmoid_backward(const Tensor& x, double factor, const Tensor& dy, const Grad& dx) = 0;
  /// The logarithm of a forgetting gate: y = -exp(A_log) softplus(x + bias); x [rows, n] strided, bias [n]; A_log [h],
  /// h dividing n, one for n / h neighbouring columns.
  virtual void log_decay(const Tensor& x, const Tensor& A_log, const Tensor& bias, const Tensor& y) = 0;
  virtual void log_decay_backward(const Tensor& x, const Tensor& A_log, const Tensor& bias, const Tensor& dy,
                                  const Grad& dx, const Grad& dA_log, const Grad& dbias) = 0;
  /// Weights of experts, y [rows, experts], from logits x (router.h); bias [experts] or undefined, without gradient.
  virtual void route(const Tensor& x, const Tensor& bias, const Router& router, const Tensor& y) = 0;
  virtual void route_backward(const Tensor& x, const Router& router, const Tensor& y, const Tensor& dy,
                              const Grad& dx) = 0;
  /// y = x (factor + offset), one factor for every row: factor [rows]. x and y may be bfloat16, as their gradients
  /// then.
  virtual void multiply_rows(const Tensor& x, const Tensor& factor, double offset, const Tensor& y) = 0;
  virtual void multiply_rows_backward(const Tensor& x, const Tensor& factor, double offset, const Tensor& dy,
                                      const Grad& dx, const Grad& dfactor) = 0;
  /// y = x + bias over the last axis: x, y [rows,n], bias [n].
  virtual void add_bias(const Tensor& x, const Tensor& bias, const Tensor& y) = 0;
  /// The gradient of the bias: out [n] = sum over rows of x [rows,n].
  virtual void sum_rows(const Tensor& x, const Grad& out) = 0;

  // Norms over the last axis. x, y [rows,n], weight [n]; inverse [rows] is saved for the gradient; rounded, where it is
  // defined, becomes the `KeptInput` of y's projections.
  /// y = x / sqrt(mean(x^2) + eps) * weight.
  virtual void rms_norm(const Tensor& x, const Tensor& weight, double eps, const Tensor& y, const Tensor& inverse,
                        const Tensor& rounded) = 0;
  /// The norm of a sum: sum = a + b, y = rms_norm(sum).
  virtual void add_rms_norm(const Tensor& a, const Tensor& b, const Tensor& weight, double eps, const Tensor& sum,
                            const Tensor& y, const Tensor& inverse, const Tensor& rounded) = 0;
  /// y may be bfloat16, as dy then. `base`, where defined, is added to dx; `narrow`, where defined, becomes dx in
  /// bfloat16.
  virtual void rms_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& inverse, const Tensor& dy,
                                 const Tensor& base, const Grad& dx, const Tensor& narrow, const Grad& dweight) = 0;
  /// y = RMSNorm(x * silu(z)) * weight (Mamba-2's gated norm); rows of z and dz may be strided. All of
  /// x, z, y and their gradients may be bfloat16.
  virtual void gated_rms_norm(const Tensor& x, const Tensor& z, const Tensor& weight, double eps, const Tensor& y,
                              const Tensor& inverse, const Tensor& rounded) = 0;
  virtual void gated_rms_norm_backward(const Tensor& x, const Tensor& z, const Tensor& weight, const Tensor& inverse,
                                       const Tensor& dy, const Grad& dx, const Grad& dz, const Grad& dweight) = 0;
  /// y = (x - mean) / sqrt(variance + eps) * weight + bias with the biased variance; moments [rows,2] keeps mean and
  /// inverse deviation.
  virtual void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, const Tensor& y,
                          const Tensor& moments) = 0;
  virtual void layer_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& moments, const Tensor& dy,
                                   const Grad& dx, const Grad& dweight, const Grad& dbias) = 0;
  /// y = x / (|x|_2 + eps) over the last axis; norms [rows] keeps |x|_2. The gradient at x = 0 is dy / eps.
  virtual void unit_norm(const Tensor& x, double eps, const Tensor& y, const Tensor& norms) = 0;
  virtual void unit_norm_backward(const Tensor& x, double eps, const Tensor& norms, const Tensor& dy,
                                  const Grad& dx) = 0;

  // Tokens.
  /// y[i] = a[places[i]] + b[places[i]], and zeros where places[i] < 0; places i32 [n], a and b [V,d] (b may be
  /// undefined: a alone), y [n,d].
  virtual void gather_rows(const Tensor& places, const Tensor& a, const Tensor& b, const Tensor& y) = 0;
  /// dtable[v] = the sum of dy[i] over all tokens[i] = v, in order; tokens i32 [n], dy [n,d], dtable [V,d].
  virtual void embedding_backward(const Tensor& tokens, const Tensor& dy, const Grad& dtable) = 0;
  /// Mean cross-entropy over rows whose target is >= 0. logits [n,V], targets i32 [n], probabilities [n,V] saved,
  /// loss [1], correct and counted i32 [1] (argmax hits and rows that count; ties go to the smallest index).
  virtual void cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& probabilities,
                             const Tensor& loss, const Tensor& correct, const Tensor& counted) = 0;
  virtual void cross_entropy_backward(const Tensor& probabilities, const Tensor& targets, const Tensor& counted,
                                      const Tensor& dloss, const Grad& dlogits) = 0;
  /// places i32 [m]: the rows of targets i32 [n] that have one, in order; own i32 [m]: their targets; both end with -1
  /// where there are fewer than m. ranks i32 [n]: where in `places` a row stands, -1 without a target. There are at
  /// most m of them.
  virtual void answered_rows(const Tensor& targets, const Tensor& places, const Tensor& own, const Tensor& ranks) = 0;
  /// `cross_entropy` row by row, where not all logits are there at once: losses [n], 0 without target, and hits i32
  /// [n]: 0 without target, else 1, and 3 where the first of the largest logits is the target's. With `to_gradients`
  /// the logits become softmax(logits) - onehot(target), and zeros without target.
  virtual void cross_entropy_rows(const Tensor& logits, const Tensor& targets, bool to_gradients, const Tensor& losses,
                                  const Tensor& hits) = 0;
  /// loss, correct and counted of all rows from theirs.
  virtual void cross_entropy_mean(const Tensor& losses, const Tensor& hits, const Tensor& loss, const Tensor& correct,
                                  const Tensor& counted) = 0;
  /// out = sums dloss / counted, 0 where nothing counts: gradients summed from those of `cross_entropy_rows`.
  virtual void cross_entropy_scale(const Tensor& sums, const Tensor& dloss, const Tensor& counted, const Grad& out) = 0;

  // Position code, convolution and softmax attention along a sequence.
  /// Rotary position code on pairs (2i, 2i+1) of one or two tensors: x[i], y[i] [B,T,H_i,D]; angle
  /// (first_position + t) rate(i); inverse turns back. All may be bfloat16; x, or with inverse y, then also
  /// [B,T,H_i D] with strided rows.
  virtual void rotary(std::span<const Tensor> x, const RotaryRates& rates, std::int64_t first_position, bool inverse,
                      std::span<const Grad> y) = 0;
  /// Causal depthwise convolution, then SiLU: x, y [B,T,c] (rows of x may be strided), weight [c,1,w], bias [c] or
  /// undefined. `history` [B,w-1,c] holds the inputs before the first token (undefined: zeros) and is updated when
  /// defined. `before` [B,T,c], where defined, receives the sums before SiLU, for the gradient. Without history x
  /// and y may be bfloat16, as dy and dx then. With `heads` each is divided by its length, where `makes_unit_heads`.
  virtual void causal_conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& history,
                           const Tensor& before, const UnitHeads& heads, const Tensor& y) = 0;
  virtual void causal_conv_backward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& before,
                                    const UnitHeads& heads, const Tensor& dy, const Grad& dx, const Grad& dweight,
                                    const Grad& dbias) = 0;
  /// A convolution and step sizes that depend on nothing else, y and `sizes` as by the kernels of each: they read
  /// different columns of the same rows, so a GPU may compute both in one launch, with the same bits.
  virtual void conv_with_steps(const Convolution& conv, const Tensor& y, const StepSizes& steps,
                               const Tensor& sizes) = 0;
  virtual void conv_with_steps_backward(const Convolution& conv, const Tensor& dy, const ConvolutionGrads& dconv,
                                        const StepSizes& steps, const Tensor& dsizes, const StepSizesGrads& dsteps) = 0;
  /// Whether the convolution of x without history can also divide heads of this width by their length.
  virtual bool makes_unit_heads(const Tensor& x, const Tensor& weight, std::int64_t width) const = 0;
  /// Elements of `before`; 0 where the backward pass recomputes the sums.
  virtual std::int64_t causal_conv_kept(const Tensor& x) const = 0;
  /// Softmax attention: q, y [B,Tq,H,D]; k, v [B,Tk,Hkv,D]; query i sees all keys, or with a `window` its newest ones,
  /// i + Tk - Tq - window < j <= i + Tk - Tq. log_sum [B,H,Tq] saved. Where `attention_operands` is positive, all may
  /// be bfloat16, and then so are their gradients; q, k and v, and their gradients, then also [B,T,H D] and [B,T,Hkv D]
  /// with strided rows.
  virtual void attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale, std::int64_t window,
                         const Tensor& y, const Tensor& log_sum) = 0;
  virtual void attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, double scale, std::int64_t window,
                                  const Tensor& y, const Tensor& log_sum, const Tensor& dy, const Grad& dq,
                                  const Grad& dk, const Grad& dv) = 0;

  // Scans: recurrences over the tokens with a state a head. *_workspace: elements that the backward pass needs.
  /// Whether x, B and C of a scan may be bfloat16, as y and all their gradients then; asks for shapes alone.
  virtual bool scans_narrow(const ScanInputs& in) const = 0;
  /// The selective scan; y [B,T,H,P]; `state` [B,H,P,N] is read when `resume`, and written with the last state when
  /// defined.
  virtual void ssd_scan(const ScanInputs& in, const Tensor& y, const Tensor& state, bool resume) = 0;
  /// After `ssd_scan` of the same inputs.
  virtual void ssd_scan_backward(const ScanInputs& in, const Tensor& dy, const Tensor& workspace,
                                 const ScanGrads& out) = 0;
  /// Elements of workspace that ssd_scan_backward needs.
  virtual std::int64_t ssd_scan_workspace(const ScanInputs& in) const = 0;
  /// Mamba-1's scan; y [B,T,c]; `state` [B,c,N] is read when `resume`, and written with the last state when defined.
  virtual void channel_scan(const ChannelScanInputs& in, const Tensor& y, const Tensor& state, bool resume) = 0;
  virtual void channel_scan_backward(const ChannelScanInputs& in, const Tensor& dy, const Tensor& workspace,
                                     const ChannelScanGrads& out) = 0;
  virtual std::int64_t channel_scan_workspace(const ChannelScanInputs& in) const = 0;
  /// The gated delta rule family; y [B,T,H,P]; `state` [B,H,K,P] is read when `resume`, and written with the last state
  /// when defined. `kept`, workspace and state are float32 where `scans_narrow`.
  virtual void delta_scan(const DeltaInputs& in, const Tensor& y, const Tensor& state, bool resume) = 0;
  virtual void delta_scan_backward(const DeltaInputs& in, const Tensor& dy, const Tensor& workspace,
                                   const DeltaGrads& out) = 0;
  virtual std::int64_t delta_scan_workspace(const DeltaInputs& in) const = 0;
  /// How many numbers `DeltaInputs::kept` has; 0 where nothing is kept.
  virtual std::int64_t delta_scan_kept(const DeltaInputs& in) const = 0;
  /// Whether q, k and v of the rule may be bfloat16, as y and their gradients then; asks for shapes alone.
  virtual bool scans_narrow(const DeltaInputs& in) const = 0;
  /// Recursive least squares; y [B,T,H,P]; `state` is read when `resume`, and written where defined.
  virtual void kalman_scan(const KalmanInputs& in, const Tensor& y, const KalmanState& state, bool resume) = 0;
  virtual void kalman_scan_backward(const KalmanInputs& in, const Tensor& dy, const Tensor& workspace,
                                    const KalmanGrads& out) = 0;
  virtual std::int64_t kalman_scan_workspace(const KalmanInputs& in) const = 0;

  // Mamba-3, around its scan. What a projection gave (x and turn) and turned heads (y) may be bfloat16, as their
  // gradients then; steps and angles are float32 there.
  /// x [B,T,3H]: time step, A, trap, each [B,T,H]; bias [H] of the time step. y [B,T,4H]: dt = softplus(x_dt + bias),
  /// log_decay = -rate(A) dt, what the token itself and the token before enter with: r dt and (1 - r) dt, where
  /// r = sigmoid(trap) and rate(A) = 1 + A, below zero 1 / (1 - A). Rows of x and dx may be strided.
  virtual void trapezoid_steps(const Tensor& x, const Tensor& bias, const StepFloors& floors, const Tensor& y) = 0;
  virtual void trapezoid_steps_backward(const Tensor& x, const Tensor& bias, const StepFloors& floors, const Tensor& dy,
                                        const Grad& dx, const Grad& dbias) = 0;
  /// theta [B,T,H,n] = sum over s <= t of dt_s pi tanh(turn_s), summed in float64 and brought into [-pi, pi]. dt
  /// [B,T,H], turn [B,T,n], rows may be strided. `carry` [B,H,n], when defined, is where the sum begins and receives
  /// the last.
  virtual void rotary_angles(const Tensor& dt, const Tensor& turn, const Tensor& carry, const Tensor& theta) = 0;
  /// `sums` [B,T,H,n] is scratch.
  virtual void rotary_angles_backward(const Tensor& dt, const Tensor& turn, const Tensor& dtheta, const Tensor& sums,
                                      const Grad& ddt, const Grad& dturn) = 0;
  /// One vector becomes one a head: y [B,T,H,N] = RMSNorm(x) weight + bias_h, its first n pairs (2i, 2i+1) turned by
  /// theta [B,T,H,n] (undefined: none). x [B,T,N], rows may be strided; weight [N], bias [H,1,N]; inverse [B T] is
  /// saved.
  virtual void rotate_heads(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& theta, double eps,
                            const Tensor& y, const Tensor& inverse) = 0;
  /// `sums` [B,T,N] is scratch.
  virtual void rotate_heads_backward(const Tensor& x, const Tensor& weight, const Tensor& theta, const Tensor& y,
                                     const Tensor& inverse, const Tensor& dy, const Tensor& sums, const Grad& dx,
                                     const Grad& dweight, const Grad& dbias, const Grad& dtheta) = 0;
  /// y = x silu(z), or with weight RMSNorm(x) weight silu(z), the norm taken over each head: x, y [B,T,H,P], weight [H
  /// P], or [P] for all heads; rows of z, dz [B,T,H P] may be strided; inverse [B T H] is saved with a weight. x, z and
  /// y may be bfloat16, as their gradients then.
  virtual void gated_heads(const Tensor& x, const Tensor& z, const Tensor& weight, double eps, const Tensor& y,
                           const Tensor& inverse) = 0;
  virtual void gated_heads_backward(const Tensor& x, const Tensor& z, const Tensor& weight, const Tensor& inverse,
                                    const Tensor& dy, const Grad& dx, const Grad& dz, const Grad& dweight) = 0;

  // Spectral Koopman Attention: ridge regression with a power filter, see ridge.h.
  /// All tokens: y [B,T,H,P] from the statistics of their groups, by `config.mode`.
  virtual void ridge_readout(const RidgeConfig& config, const RidgeInputs& in, const RidgeSaved& saved,
                             const Tensor& y) = 0;
  virtual void ridge_readout_backward(const RidgeConfig& config, const RidgeInputs& in, const RidgeSaved& saved,
                                      const Tensor& dy, const Tensor& workspace, const RidgeGrads& out) = 0;
  /// Whether z, q and v may be bfloat16 and strided, [B,T,H r] and [B,T,H P], as their gradients then, and y bfloat16;
  /// asks for the shapes [B,T,H,r] and [B,T,H,P] of z and v alone.
  virtual bool reads_out_narrow(const RidgeConfig& config, const RidgeInputs& in) const = 0;
  /// Elements of workspace that ridge_readout_backward needs.
  virtual std::int64_t ridge_readout_workspace(const RidgeConfig& config, const RidgeInputs& in) const = 0;
  /// By what the query of each token is divided: scales [B,T,H] = 1 / m from m [B,H,g] of the groups; and its gradient,
  /// which flows to the lengths that attain m.
  virtual void ridge_scales(const RidgeConfig& config, const RidgeSaved& saved, const Tensor& scales) = 0;
  virtual void ridge_scales_backward(const RidgeConfig& config, const RidgeSaved& saved, const Tensor& dscales,
                                     const Grad& dlength) = 0;
  /// One token: z, q [B,1,H,r], v, y [B,1,H,P]; updates the state; saved holds one group.
  virtual void ridge_step(const RidgeConfig& config, const RidgeInputs& in, const RidgeState& state,
                          const RidgeSaved& saved, const Tensor& y) = 0;

  // Koopman MLP and the observables that lift its input.
  /// Koopman MLP core (Echo 3.3): z from u = silu(lifted) by damped rotations of pairs, times sigmoid(gate) when
  /// defined. lifted, gate, z [rows, dk], maybe bfloat16, as their gradients then; gamma, omega [dk/2]; rounded as in
  /// norms.
  virtual void koopman_modes(const Tensor& lifted, const Tensor& gamma, const Tensor& omega, const Tensor& gate,
                             const Tensor& z, const Tensor& rounded) = 0;
  virtual void koopman_modes_backward(const Tensor& lifted, const Tensor& gamma, const Tensor& omega,
                                      const Tensor& gate, const Tensor& dz, const Grad& dlifted, const Grad& dgamma,
                                      const Grad& domega, const Grad& dgate) = 0;
  /// Per block of b channels the matrix W = R Q: Q = (I + S)^-1 (I - S) (Cayley) of S = A - A^T, and R turns pairs of
  /// rows as koopman_modes turns pairs. A, Q, W [n,b,b], gamma, omega [n b / 2]; b even.
  virtual void mixed_modes(const Tensor& A, const Tensor& gamma, const Tensor& omega, const Tensor& Q,
                           const Tensor& W) = 0;
  virtual void mixed_modes_backward(const Tensor& gamma, const Tensor& omega, const Tensor& Q, const Tensor& dW,
                                    const Grad& dA, const Grad& dgamma, const Grad& domega) = 0;
  /// The observables of `squares`: x [.., N] with N even, y [.., squares.width(N)].
  virtual void pair_squares(const Tensor& x, const PairSquares& squares, const Tensor& y) = 0;
  virtual void pair_squares_backward(const Tensor& x, const PairSquares& squares, const Tensor& dy, const Grad& dx) = 0;

  // Gated KalmaNet: the Chebyshev solve of (H_t + lambda_t I) x = q_t and the readout from it, token by token, see
  // chebyshev.h.
  /// Whether q, k and v may be bfloat16, as y, their gradients and the saved states then; asks for the shape of q
  /// alone.
  virtual bool reads_out_narrow(const ChebyshevConfig& config, const ChebyshevInputs& in) const = 0;
  virtual void chebyshev_readout(const ChebyshevConfig& config, const ChebyshevInputs& in, const ChebyshevSaved& saved,
                                 const Tensor& y) = 0;
  virtual void chebyshev_readout_backward(const ChebyshevConfig& config, const ChebyshevInputs& in,
                                          const ChebyshevSaved& saved, const Tensor& dy, const Tensor& workspace,
                                          const ChebyshevGrads& out) = 0;
  /// Elements of workspace that chebyshev_readout_backward needs.
  virtual std::int64_t chebyshev_readout_workspace(const ChebyshevConfig& config, const ChebyshevInputs& in) const = 0;
  /// One token; updates the state.
  virtual void chebyshev_step(const ChebyshevConfig& config, const ChebyshevInputs& in, const ChebyshevState& state,
                              const ChebyshevSaved& saved, const Tensor& y) = 0;

  // Sessa, see feedback.h.
  /// s [B,T,F] of (I - B_fb) s = f, with the feedback softmax on the fly. q, k, f and s may be bfloat16, as ds, u and
  /// the gradients of q and k then.
  virtual void feedback_solve(const FeedbackInputs& in, const Tensor& s, const FeedbackSaved& saved) = 0;
  /// `u` [B,T,F] receives the solution of the transposed system (I - B_fb)^T u = ds, which is the gradient of f.
  virtual void feedback_solve_backward(const FeedbackInputs& in, const Tensor& s, const FeedbackSaved& saved,
                                       const Tensor& ds, const Tensor& u, const FeedbackGrads& out) = 0;
  /// Elements of FeedbackSaved::workspace; 0 where it is not used.
  virtual std::int64_t feedback_solve_workspace(const FeedbackInputs& in) const = 0;

  // Forecasting: windows x [B,L,C] of C channels, each of which becomes a sequence of its own.
  /// Mean and sqrt(variance + eps) (biased variance) over time, both [B,C].
  virtual void series_moments(const Tensor& x, double eps, const Tensor& mean, const Tensor& deviation) = 0;
  virtual void series_moments_backward(const Tensor& x, const Tensor& mean, const Tensor& deviation,
                                       const Tensor& ddeviation, const Grad& dx) = 0;
  /// z [B*C,L] = (x - mean) / deviation; the mean counts as constant.
  virtual void series_normalise(const Tensor& x, const Tensor& mean, const Tensor& deviation, const Tensor& z) = 0;
  virtual void series_normalise_backward(const Tensor& z, const Tensor& deviation, const Tensor& dz, const Grad& dx,
                                         const Grad& ddeviation) = 0;
  /// y [B,P,C] = z deviation + mean, z [B*C,P]; the mean counts as constant.
  virtual void series_restore(const Tensor& z, const Tensor& mean, const Tensor& deviation, const Tensor& y) = 0;
  virtual void series_restore_backward(const Tensor& z, const Tensor& deviation, const Tensor& dy, const Grad& dz,
                                       const Grad& ddeviation) = 0;
  /// loss [1] = mean (a - b)^2, absolute [1] = mean |a - b|.
  virtual void squared_error(const Tensor& a, const Tensor& b, const Tensor& loss, const Tensor& absolute) = 0;
  virtual void squared_error_backward(const Tensor& a, const Tensor& b, const Tensor& dloss, const Grad& da) = 0;

  // Training.
  /// y = x / (1 - rate) where element i is kept, else 0. Whether it is kept is a pure function of (seed, site,
  /// counter [1] i32, i), so the gradient is the same call on dy and a captured step draws afresh.
  virtual void dropout(const Tensor& x, double rate, std::uint64_t seed, std::uint32_t site, const Tensor& counter,
                       const Grad& y) = 0;
  /// norms[i] = |slice i|_2 of the flat gradient, slices given by i64-valued offsets (in f64) [n + 1], on a GPU
  /// multiples of four; global norm in `total` [1].
  virtual void gradient_norms(const Tensor& gradients, const Tensor& offsets, const Tensor& norms,
                              const Tensor& total) = 0;
  /// One AdamW step with decoupled weight decay, after clipping by the global norm.
  virtual void adamw(const AdamwTensors& tensors) = 0;
  /// Index of the first NaN or infinity, -1 when all are finite. Waits for the result.
  virtual std::int64_t first_non_finite(const Tensor& x) = 0;
};

}  // namespace afterglow
