// Norms of end-to-end Jacobian blocks |dy_t/dx_tau|_2 (Sessa, definition 3) by backward passes through the tape, a few
// at a time, so that the worker can do other work in between.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/analysis/influence/influence.h"
#include "core/autograd/tape.h"
#include "core/engine/analyses/influence/influence_view.h"

namespace afterglow {

/// x [B,T,d] -> y [B,T,d]; mask u8 [B,T] as in Layer::forward.
using SequenceMap = std::function<Var(Tape& tape, const Var& x, const Tensor& mask)>;

struct JacobianPlan {
  struct Block {
    int query = 0, source = 0;  ///< t and tau
  };
  std::vector<Block> blocks;
  int directions = 4;  ///< cotangents for each block; d or more: unit vectors with exact norms
  bool causal = true;  ///< no output depends on later tokens, so that a pass may end at its last query
  std::uint64_t seed = 0;
  int tokens_at_once = 4096;  ///< of one pass, all rows together
  int branches = 1;           ///< of the map, which all take memory
};

/// Tokens of one pass that keep this device busy without delaying other programs on it.
int tokens_in_a_pass(const Backend& backend);

/// Limits the tokens of the next pass by the device's speed and memory. The memory of a token is known from the last
/// pass; the first pass is small, the smaller the more branches the map has.
class PassSize {
 public:
  explicit PassSize(int max_tokens, int branches = 1) : max_tokens_(max_tokens), branches_(branches) {}
  int tokens() const;
  /// A pass of this many tokens has used this many bytes of its arena.
  void note(std::int64_t tokens, std::size_t bytes);

 private:
  int max_tokens_, branches_;
  std::int64_t bytes_of_a_token_ = 0;  // in the last pass; 0 before the first
};

/// One cotangent takes one row of a batch: it is u at the query and 0 elsewhere, and the gradient at the source is u^T
/// J. A pass costs a forward and a backward pass over (rows x tokens up to the query); parameters are constants.
class JacobianMeasure {
 public:
  /// `x` [T*d] on the host. Tape and map must outlive this object, which uses the tape during `advance`.
  JacobianMeasure(Tape& tape, DType dtype, std::vector<double> x, std::vector<std::uint8_t> context, SequenceMap map,
                  JacobianPlan plan);

  /// One pass; false if all are done.
  bool advance();
  bool done() const { return next_ == rows(); }
  /// One for each block of the plan, once done.
  std::vector<NormEstimate> norms() const;

 private:
  std::size_t rows() const { return order_.size() * static_cast<std::size_t>(directions_); }
  int tokens() const { return static_cast<int>(context_.size()); }
  std::vector<double> cotangent(std::size_t block, int direction) const;

  Tape* tape_;
  DType dtype_;
  std::vector<double> x_;
  std::vector<std::uint8_t> context_;
  SequenceMap map_;
  JacobianPlan plan_;
  int width_, directions_;
  bool complete_;
  std::vector<std::size_t> order_;  // blocks by ascending query, so that passes are as short as possible
  PassSize size_;
  std::size_t next_ = 0;       // row: index into order_ times directions, plus direction
  std::vector<double> found_;  // [blocks, directions, d]
};

/// Every source with lags 1, 2, .. up to the last that all sources have, `per_decade` lags a decade.
std::vector<JacobianPlan::Block> influence_blocks(std::span<const int> sources, int tokens, int per_decade);

/// Lags, values and bounds: at each lag the mean over the sources. Norms are ordered as the blocks; exact norms give no
/// bounds.
void fill_tail(InfluenceTail& tail, std::span<const JacobianPlan::Block> blocks, std::span<const NormEstimate> norms);
/// Sets fit, lag of 1 % and silence from lags and values.
void judge_tail(InfluenceTail& tail);
/// A tail of fixed routing: the mean of |w[tau + l, tau]| over the sources at spread lags, and over the matrices.
void fill_tail(InfluenceTail& tail, std::span<const std::vector<float>> weights, std::span<const int> sources,
               int tokens, int per_decade);

}  // namespace afterglow
