// The constants of proposition 25, one after the other.
#include "core/analysis/influence/block_bound.h"

#include <cmath>
#include <limits>

namespace afterglow {

double affine_bound(const AffineNorms& map, double radius) { return map.weight * radius + map.bias; }

double norm_bound(const NormNorms& norm, double radius) {
  if (norm.width == 0) return radius;
  if (radius == 0) return norm.bias;
  // Centring is a projection, and the quotient grows with what is left.
  return norm.weight * radius / std::sqrt(radius * radius / norm.width + norm.eps) + norm.bias;
}

SessaReach sessa_reach(const SessaNorms& norms, double radius) {
  SessaReach reach;
  const double entered = norm_bound(norms.norm, radius);
  reach.signal = affine_bound(norms.signal, entered);
  reach.gate = affine_bound(norms.gate, entered);
  // Each head mixes its own values.
  double squares = 0;
  for (const AffineNorms& head : norms.values) squares += std::pow(affine_bound(head, reach.signal), 2);
  reach.forward = norms.joined * std::sqrt(squares);
  reach.gain = norms.most_gain * std::tanh(affine_bound(norms.gain, reach.signal));
  reach.solution = reach.gain < 1 ? reach.forward / (1 - reach.gain) : std::numeric_limits<double>::infinity();
  reach.answer = radius + affine_bound(norms.out, reach.solution * reach.gate);
  return reach;
}

}  // namespace afterglow
