// Every operation: one function each, which checks shapes, calls the back end and records its gradient rule.
// Shapes as in core/backend/backend.h. A wrong shape is an Error that names the operation, what it expected and what it
// got.
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "core/autograd/tape.h"
#include "core/backend/kalman.h"

namespace afterglow {

// elementwise.cpp
/// a + b, of one shape.
Var add(Tape& tape, const Var& a, const Var& b);
/// a b, element by element; rows of b may be strided. Both may be stored narrow.
Var multiply(Tape& tape, const Var& a, const Var& b);
/// factor x; rows of x may be strided.
Var scale(Tape& tape, const Var& x, double factor);
/// One function of every element; rows of x may be strided and stored narrow, the result is wide.
Var unary(Tape& tape, Unary kind, const Var& x);
/// A constant tensor, and x + by for every element.
Var filled(Tape& tape, const Shape& shape, DType dtype, double value);
Var shifted(Tape& tape, const Var& x, double by);
/// silu(a) b (SwiGLU); rows may be strided.
Var silu_multiply(Tape& tape, const Var& a, const Var& b);
/// softplus(x + bias) within `range`, bias over the last axis.
Var softplus_bias(Tape& tape, const Var& x, const Var& bias, const StepRange& range = {});

// gates.cpp
/// factor log sigmoid(x), the logarithm of a gate; rows of x may be strided.
Var log_sigmoid(Tape& tape, const Var& x, double factor);
/// -exp(A_log) softplus(x + bias), bias [n] over the last axis, A_log [h], h dividing n: one for n / h neighbouring
/// columns; rows of x may be strided.
Var log_decay(Tape& tape, const Var& x, const Var& A_log, const Var& bias);
/// Weights of experts [.., E] from logits x [.., E], see core/backend/router.h; bias [E] without gradient, or
/// undefined.
Var route(Tape& tape, const Var& x, const Tensor& bias, const Router& router);
/// Row i of x, maybe stored narrow, times factor[i] + offset; factor has one number for every row, in any shape.
Var multiply_rows(Tape& tape, const Var& x, const Var& factor, double offset);
/// The inner products of the rows of a and b: [.., n] -> [.., 1].
Var row_products(Tape& tape, const Var& a, const Var& b);

// linear.cpp
/// y = x W^T (+ bias): x [..., in], weight [out, in], bias [out] or absent.
Var linear(Tape& tape, const Var& x, const Var& weight, const Var& bias = {}, Storage stored = Storage::wide);
/// The same and its columns as `parts` of these widths, which cover it: rows may lie as the back end likes them best.
void linear_columns(Tape& tape, const Var& x, const Var& weight, const Var& bias, std::span<const std::int64_t> widths,
                    std::span<Var> parts, Storage stored = Storage::wide);
inline constexpr std::size_t max_projections = 5;  ///< of linear_many
/// Several projections of one input at once: results[i] = x weights[i]^T (+ biases[i], where there is one). Where they
/// are stored narrow they lie side by side: their rows are strided.
void linear_many(Tape& tape, const Var& x, std::span<const Var> weights, std::span<Var> results,
                 std::span<const Var> biases = {}, Storage stored = Storage::wide);
/// The gated MLP y = (silu(x gate^T) * (x up^T)) down^T: x [..., d], gate, up [m, d], down [out, m]. x may be narrow
/// where m is a multiple of eight.
Var gated_mlp(Tape& tape, const Var& x, const Var& gate, const Var& up, const Var& down);

// norm.cpp
/// x / sqrt(mean(x^2) + eps) weight over the last axis; weight [n].
Var rms_norm(Tape& tape, const Var& x, const Var& weight, double eps, Storage stored = Storage::wide);
struct NormedSum {
  Var sum, normed;
};
/// a + b and rms_norm(a + b), the step from one residual branch to the next.
NormedSum add_rms_norm(Tape& tape, const Var& a, const Var& b, const Var& weight, double eps,
                       Storage stored = Storage::wide);
/// x / (|x|_2 + eps) over the last axis.
Var unit_norm(Tape& tape, const Var& x, double eps);
/// x / sqrt(|x|_2^2 + eps) over the last axis, as flash-linear-attention divides.
Var l2_norm(Tape& tape, const Var& x, double eps);
/// x / sqrt(mean(x^2) + eps) over each of `groups` equal ranges of the last axis, times weight [n]. At most 64 groups.
Var group_rms_norm(Tape& tape, const Var& x, const Var& weight, double eps, std::int64_t groups);
/// RMSNorm(x silu(z)) weight (Mamba-2); rows of z may be strided.
Var gated_rms_norm(Tape& tape, const Var& x, const Var& z, const Var& weight, double eps);
/// x [B,T,H,P] times silu(z [B,T,H P]); with weight [H P], or [P] for all heads, x is normed over each head first.
Var gated_heads(Tape& tape, const Var& x, const Var& z, const Var& weight, double eps);
/// Heads x [B,T,H,P] side by side, [B,T,H P], each normed with one weight [P] and, where z [B,T,H P] is defined, times
/// silu(z).
Var normed_heads(Tape& tape, const Var& x, const Var& z, const Var& weight, double eps);
/// LayerNorm over the last axis with the biased variance; weight, bias [n].
Var layer_norm(Tape& tape, const Var& x, const Var& weight, const Var& bias, double eps);

// tokens.cpp
/// tokens i32 [B,T], table [V,d] -> [B,T,d].
Var embedding(Tape& tape, const Tensor& tokens, const Var& table);
struct CrossEntropy {
  Var loss;                 ///< [1], mean over rows with target >= 0
  Tensor correct, counted;  ///< i32 [1]
  Tensor probabilities;     ///< [B,T,V]
};
/// logits [B,T,V]; targets i32 [B,T], -1 where nothing is asked.
CrossEntropy cross_entropy(Tape& tape, const Var& logits, const Tensor& targets);
/// Whether a batch of so many rows, answered or not, takes `head_cross_entropy`: its logits would be more than 2^24,
/// over a vocabulary of at least 1024. All others take `cross_entropy`.
constexpr bool has_wide_head(std::int64_t rows, std::int64_t vocabulary) {
  return vocabulary >= 1024 && rows * vocabulary > (std::int64_t{1} << 24);
}
/// cross_entropy(linear(hidden, weight), targets) of a head: hidden [B,T,d], weight [V,d], targets i32 [B,T];
/// `probabilities` are undefined. At most `logits` of them exist at a time, but always a row. The gradients of both
/// inputs, but for a factor, are summed together with the loss while a chunk's logits exist, so no product is done
/// twice.
CrossEntropy head_cross_entropy(Tape& tape, const Var& hidden, const Var& weight, const Tensor& targets,
                                std::int64_t logits = std::int64_t{1} << 26);
/// The rows of a batch that have a target, in order.
struct AnsweredRows {
  Tensor places;   ///< i32 [m]: row of the batch, -1 after the last one
  Tensor targets;  ///< i32 [1,m], -1 after the last one
  Tensor ranks;    ///< i32 [B T]: where in `places` a row stands, -1 without a target
};
/// targets i32 [B,T], -1 where nothing is asked; m = `most`, and no batch has more of them.
AnsweredRows answered_rows(Tape& tape, const Tensor& targets, std::int64_t most);
/// These rows of x + y alone: x, y [B,T,d] -> [1,m,d], zeros after the last one; y may be absent.
Var gather_rows(Tape& tape, const Var& x, const Var& y, const AnsweredRows& rows);

// sequence.cpp
/// Pairs (2i, 2i+1) of queries [B,T,H,D] and keys [B,T,Hkv,D] turned by the angle (first_position + t) rate(i), see
/// core/backend/rotary.h. Both may be stored narrow as `linear_many` leaves them, with D = `width`: [B,T,H D] and
/// [B,T,Hkv D], from which [B,T,H,D] and [B,T,Hkv,D] come.
std::array<Var, 2> rotary_pair(Tape& tape, const Var& q, const Var& k, const RotaryRates& rates,
                               std::int64_t first_position, std::int64_t width = 0);
/// Causal depthwise convolution, then SiLU: x [B,T,c], weight [c,1,w], bias [c] or absent; `history` [B,w-1,c] is read
/// and advanced when defined.
Var causal_conv(Tape& tape, const Var& x, const Var& weight, const Var& bias, const Tensor& history = {});
/// The same without SiLU.
Var plain_causal_conv(Tape& tape, const Var& x, const Var& weight, const Var& bias, const Tensor& history = {});
/// `causal_conv` without bias, then `unit_norm` of heads of `width` neighbouring channels: x [B,T,c] ->
/// [B,T,c / width,width]; a back end may do both at once, with the same bits.
Var unit_causal_conv(Tape& tape, const Var& x, const Var& weight, std::int64_t width, double eps,
                     const Tensor& history = {});
/// `causal_conv` of x, and `softplus_bias` of `steps` [B,T,n], the step sizes of a scan: neither waits for the other.
std::array<Var, 2> conv_with_steps(Tape& tape, const Var& x, const Var& weight, const Var& bias, const Tensor& history,
                                   const Var& steps, const Var& steps_bias, const StepRange& range);
/// x [B,T,H,D] -> [B,T,H times,D]: head h reads head h / times of x.
Var repeat_heads(Tape& tape, const Var& x, std::int64_t times);
inline constexpr std::int64_t every_key = std::int64_t{1} << 62;  ///< no window
/// Softmax attention with scores scale q . k: q [B,Tq,H,D], k, v [B,Tk,Hkv,D] -> [B,Tq,H,D]. The last query is at the
/// last key, and none sees what follows it, or more than the newest `window` keys. Query head h reads key head h / (H /
/// Hkv). Where the back end makes operands of them (`Kernels::plan`), all may be stored narrow, and each
/// as in `rotary_pair`.
Var causal_attention(Tape& tape, const Var& q, const Var& k, const Var& v, double scale, std::int64_t width = 0,
                     std::int64_t window = every_key);
/// The same with every key in sight of every query.
Var full_attention(Tape& tape, const Var& q, const Var& k, const Var& v, double scale);

// ssd_scan.cpp
struct ScanVars {
  Var x, dt, A_log, B, C, D;  ///< dt, A_log, D may be absent
  Var log_decay, lag;         ///< both (Mamba-3) or none; then no A_log
  std::int64_t heads = 1, groups = 1;
};
/// The selective scan (ScanInputs in core/backend/backend.h): y [B,T,H,P]; `state` [B,H,P,N] is read when `resume` and
/// written when defined.
Var ssd_scan(Tape& tape, const ScanVars& in, const Tensor& state = {}, bool resume = false);

// channel_scan.cpp
struct ChannelScanVars {
  Var x, dt, A_log, B, C, D;
};
/// Mamba-1's scan (ChannelScanInputs in core/backend/scan.h): y [B,T,c]; `state` [B,c,N] is read when `resume` and
/// written when defined.
Var channel_scan(Tape& tape, const ChannelScanVars& in, const Tensor& state = {}, bool resume = false);

// delta_scan.cpp
struct DeltaVars {
  Var q, k, v, beta, g;  ///< beta and g may be absent; core/backend/delta.h says what each means
  double scale = 1.0;
};
/// y [B,T,H,P]; `state` [B,H,K,P] is read when `resume` and written when defined.
Var delta_scan(Tape& tape, const DeltaVars& in, const Tensor& state = {}, bool resume = false);

// mamba3.cpp
/// x [B,T,3H] (time step, A, trap), bias [H] -> [B,T,4H]: dt, log_decay, and the scan's dt and lag.
Var trapezoid_steps(Tape& tape, const Var& x, const Var& bias, const StepFloors& floors);
/// Angles [B,T,H,n] in [-pi, pi]: sums of dt_s pi tanh(turn_s) over s <= t; `carry` [B,H,n] is read and advanced when
/// defined.
Var rotary_angles(Tape& tape, const Var& dt, const Var& turn, const Tensor& carry = {});
/// x [B,T,N] -> [B,T,H,N]: RMSNorm(x) weight + bias_h, with the first pairs turned by theta (may be absent).
Var rotate_heads(Tape& tape, const Var& x, const Var& weight, const Var& bias, const Var& theta, double eps);
/// |k|^2 of every pair and, or, Re k^2, Im k^2 (Echo eq. 28, 30, 31) over the last axis.
Var pair_squares(Tape& tape, const Var& x, const PairSquares& squares);

// kalman_scan.cpp
struct KalmanVars {
  Var q, k, v, weight;  ///< weight may be absent
  double ridge = 1.0;   ///< lambda
};
/// y [B,T,H,P], see core/backend/kalman.h; `state` is read when `resume` and written where defined.
Var kalman_scan(Tape& tape, const KalmanVars& in, const KalmanState& state, bool resume = false);

// ridge_readout.cpp
struct RidgeVars {
  Var z, q, v, eta, gamma_raw;
  Tensor mask;
  Var length{}, left{};  ///< absent by default, see RidgeInputs
};
/// The SKA core (Echo 3.2, eq. 4 to 9): z, q [B,T,H,r], v [B,T,H,P], or stored narrow as `linear_many` leaves them,
/// eta, gamma_raw [H], mask u8 [B,T] in masked mode -> [B,T,H,P]. `saved`, when given, receives the statistics that the
/// forward pass kept (valid until the tape begins anew).
Var ridge_readout(Tape& tape, const RidgeConfig& config, const RidgeVars& in, RidgeSaved* saved = nullptr);
/// 1 / m for the query of every token, [B,T,H], with its gradient to the lengths.
Var ridge_scales(Tape& tape, const RidgeConfig& config, const Var& length, const RidgeSaved& saved);
/// The recurrent form, T = 1: adds the key to `state`; pairs the value with the key that the state has last; reads the
/// state by the query. `saved` is the state itself as far as it holds the sums.
void ridge_write_key(Tape& tape, const RidgeVars& in, const RidgeState& state);
void ridge_write_value(Tape& tape, const RidgeVars& in, const RidgeState& state);
Var ridge_answer(Tape& tape, const RidgeConfig& config, const RidgeVars& in, const RidgeState& state,
                 RidgeSaved* saved = nullptr);

// feedback_solve.cpp
struct FeedbackVars {
  Var q, k, gamma, f;
};
/// s [B,T,F] of (I - B_fb) s = f, see core/backend/feedback.h. Stored as f, and so must q and k be.
Var feedback_solve(Tape& tape, const FeedbackVars& in, double scale);

// chebyshev_readout.cpp
struct ChebyshevVars {
  Var q, k, v, g, alpha;  ///< g and alpha may be absent
};
/// The core of Gated KalmaNet (core/backend/chebyshev.h): y [B,T,H,D], stored as q, k and v. `saved`, when given,
/// receives lambda, |H|_F and the solutions (valid until the tape begins anew). The gradient is that of the exact
/// solution (implicit differentiation).
Var chebyshev_readout(Tape& tape, const ChebyshevConfig& config, const ChebyshevVars& in,
                      ChebyshevSaved* saved = nullptr);
/// One token, T = 1; advances `state`.
Var chebyshev_step(Tape& tape, const ChebyshevConfig& config, const ChebyshevVars& in, const ChebyshevState& state,
                   ChebyshevSaved* saved = nullptr);

// koopman_modes.cpp
/// Damped rotations of the pairs of silu(lifted), times sigmoid(gate) unless absent (Echo 3.3): lifted, gate [..., dk],
/// gamma, omega [dk/2] -> [..., dk].
Var koopman_modes(Tape& tape, const Var& lifted, const Var& gamma, const Var& omega, const Var& gate);
/// Block by block of b channels u -> R Q u, see Kernels::mixed_modes: u [.., dk], A [dk/b,b,b], gamma, omega [dk/2].
/// `mixer`, when given, receives the matrices Q (valid until the tape begins anew).
Var mixed_modes(Tape& tape, const Var& u, const Var& A, const Var& gamma, const Var& omega, Tensor* mixer = nullptr);

// forecast.cpp
/// Mean and sqrt(variance + eps) over time of windows x [B,L,C]; the mean takes no gradient.
struct SeriesMoments {
  Tensor mean;    ///< [B,C]
  Var deviation;  ///< [B,C]
};
SeriesMoments series_moments(Tape& tape, const Var& x, double eps);
/// z [B*C,L] = (x - mean) / deviation: every channel is a sequence of its own.
Var series_normalise(Tape& tape, const Var& x, const Tensor& mean, const Var& deviation);
/// y [B,P,C] = z deviation + mean from z [B*C,P].
Var series_restore(Tape& tape, const Var& z, const Tensor& mean, const Var& deviation);
/// tokens [M,d] in front of every sequence of x [N,L,d]: [N,M+L,d].
Var prepend_tokens(Tape& tape, const Var& tokens, const Var& x);
/// x + bias over the last axis.
Var add_bias(Tape& tape, const Var& x, const Var& bias);
/// At most 64 parts [.., n_i] of equal rows side by side: [.., sum of n_i].
Var join_columns(Tape& tape, std::span<const Var> parts);
/// A range of columns as a tensor of its own.
Var contiguous(Tape& tape, const Var& x);
struct SquaredError {
  Var loss;         ///< [1], mean over all elements
  Tensor absolute;  ///< [1], mean of |prediction - truth|
};
SquaredError squared_error(Tape& tape, const Var& prediction, const Tensor& truth);
/// Where the decisions of dropout come from: the same seed, site and counter give the same ones.
struct DropoutSource {
  double rate = 0;  ///< 0: x passes
  std::uint64_t seed = 0;
  Tensor counter = {};  ///< i32 [1], read when the step runs; undefined: x passes
};
/// `site` tells the places of one model apart.
Var dropout(Tape& tape, const Var& x, const DropoutSource& source, std::uint32_t site);

}  // namespace afterglow
