// What the SKA core takes and keeps: ridge regression of values on keys, the Koopman operator, its power filter.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/tensor/tensor.h"

namespace afterglow {

/// A learned number between two bounds: low + (high - low) sigmoid(raw).
struct Bounds {
  double low = 0, high = 1;
  double at(double raw) const { return low + (high - low) / (1.0 + std::exp(-raw)); }
  double slope(double raw) const {
    const double sigmoid = 1.0 / (1.0 + std::exp(-raw));
    return (high - low) * sigmoid * (1.0 - sigmoid);
  }
  /// The raw number of a value, which may lie at most a thousandth of the range away from the bounds.
  double raw(double value) const {
    const double share = high > low ? std::min(0.999, std::max(0.001, (value - low) / (high - low))) : 0.5;
    return std::log(share / (1.0 - share));
  }
};

/// Sizes and switches of the SKA core (Echo 3.2, eq. 4 to 9).
struct RidgeConfig {
  enum class Mode { prefix, masked, chunk, recurrent };
  enum class Norm { sequence, prefix };  ///< over what the key scale m is taken in chunk mode
  Mode mode = Mode::prefix;
  Norm norm = Norm::sequence;
  int chunk = 64;       ///< S, used in chunk mode
  int power = 2;        ///< K; 0 is plain ridge regression
  double ridge = 1e-3;  ///< eps
  int power_iterations = 6;
  Bounds gamma{1.0, 1.5};
  std::uint8_t roles = 0b010;  ///< in masked mode: bit i counts the positions whose mask is i
  /// How many statistics groups a sequence of this length has: 1, ceil(T/S), or T.
  std::int64_t groups(std::int64_t length) const;
  /// Which group of [B,H,g] the query of element `i` of a [B,T,H] tensor reads.
  std::int64_t group_of(std::int64_t i, const Shape& shape) const;
};

struct RidgeSizes {
  std::int64_t batch, tokens, heads, r, width;
};

/// Inputs of the SKA core; z, q [B,T,H,r], v [B,T,H,P], or where the plan says so [B,T,H r] and [B,T,H P]
/// with rows that may be strided; eta, gamma_raw [H], mask [B,T] u8 or undefined. Undefined by default: `length`
/// [B,T,H], of which m is the largest in the place of |z|, and `left` [B,T,H,r], the left factor of G and M in the
/// place of z: G = sum left z^T, M = sum left_t z_{t-1}^T. G must be symmetric, so each row of `left` is a multiple of
/// the key.
struct RidgeInputs {
  Tensor z, q, v, eta, gamma_raw, mask, length, left;
  RidgeSizes sizes() const;
};

/// What the forward pass keeps, one entry for each (batch, head, group); the diagnostics read it too.
/// G, M, L, A_w [B,H,g,r,r] (G, M normalised by m, without ridge), C [B,H,g,P,r] (normalised), F = C L^-T [B,H,g,P,r],
/// m, sigma, jitter [B,H,g] (jitter counts how often 1e-4 was added before the factorisation succeeded).
struct RidgeSaved {
  Tensor G, M, L, A_w, C, F, m, sigma, jitter;
  Tensor m_index;  ///< i32 [B,H,g]: position that attains m, -1 when the clamp acts
  Tensor inverse;  ///< L^-1 [B,H,g,r,r] for a back end whose backward pass reads it; undefined where none follows
};

/// In the order in which they are written.
struct RidgeGrads {
  Grad q, v, left, z, eta, gamma_raw, length;
};

/// The recurrent form: G, M [B,H,r,r], C [B,H,P,r] normalised by the running m; previous key [B,H,r] (also divided by
/// m); m [B,H] (0 before the first token). 2 r^2 + P r + r + 1 numbers a head. `factors` float64 follow from them, and
/// are zero where they must be computed anew: `Plan::kept` numbers a head, undefined where that is 0.
struct RidgeState {
  Tensor G, M, C, previous_key, m, factors;
};

}  // namespace afterglow
