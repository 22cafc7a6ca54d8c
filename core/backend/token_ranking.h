// The most probable tokens of a row of logits, on the host or where the logits are.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "core/tensor/tensor.h"

namespace afterglow {

/// Of logits [V]: the sum over all of e^{(l - largest) / temperature}, 0 for a temperature of 0; the `count` largest
/// logits, the largest first and of equal ones that of the smaller token; their tokens. [1 + 2 count] Where a logit is
/// NaN, the largest is.
std::vector<double> ranked_logits(std::span<const double> logits, double temperature, std::size_t count);

/// How many tokens a device ranks at once.
constexpr std::size_t max_ranked = 256;

/// A back end whose device ranks logits itself, so that a vocabulary need not leave it.
class TokenRanker {
 public:
  virtual ~TokenRanker() = default;
  /// Queues ranked = `ranked_logits` of logits [1,V], float32; ranked f64 [1 + 2 n] with n at most `max_ranked`. The
  /// sum has an order of its own.
  virtual void rank_logits(const Tensor& logits, double temperature, const Tensor& ranked) = 0;
};

}  // namespace afterglow
