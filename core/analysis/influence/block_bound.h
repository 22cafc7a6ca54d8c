// How far a block can answer at most when its input stays in a ball: the explicit constant of a Sessa block (Sessa,
// proposition 25, appendix D.5).
#pragma once
#include <vector>

namespace afterglow {

/// A map of single tokens, x -> W x + b.
struct AffineNorms {
  double weight = 0;  ///< |W|_2
  double bias = 0;    ///< |b|_2
};
/// Lemma D.2: at most |W|_2 radius + |b|_2 of a token within `radius`.
double affine_bound(const AffineNorms& map, double radius);

/// LayerNorm of a token of `width` numbers.
struct NormNorms {
  int width = 0;      ///< 0: the identity in its place
  double weight = 0;  ///< largest |w_i|
  double bias = 0;    ///< |b|_2
  double eps = 0;
};
/// Of a token within `radius`: max |w| radius / sqrt(radius^2 / width + eps) + |b|_2, below max |w| sqrt(width) +
/// |b|_2.
double norm_bound(const NormNorms& norm, double radius);

/// Norms of the weights of one Sessa block.
struct SessaNorms {
  NormNorms norm;
  AffineNorms signal, gate;         ///< the halves of W_in: a and g
  std::vector<AffineNorms> values;  ///< of each head of the forward read
  double joined = 1;                ///< |W|_2 of the projection after several heads
  AffineNorms gain;                 ///< |gamma_ctx|_2 and |gamma_bias|
  double most_gain = 0;             ///< gamma_max; 0: no feedback
  AffineNorms out;                  ///< W_out
};

/// What holds for every sequence of tokens with |x_t|_2 <= radius.
struct SessaReach {
  double signal = 0;    ///< |u_t|, u = GELU(a), as |GELU(a)| <= |a|
  double forward = 0;   ///< |f_t|: a convex combination of values (lemma D.3)
  double gain = 0;      ///< rho(R) = gamma_max tanh(|gamma_bias| + |gamma_ctx| |u|) (remark D.1)
  double solution = 0;  ///< |s_t| <= |f| / (1 - rho) (lemma 4.2)
  double gate = 0;      ///< |g_t|
  double answer = 0;    ///< |y_t| <= radius + |W_out| |s| |g| + |b_out| (eq. 51)
};
/// Radius at least 0; `answer` is infinite where rho reaches 1, which gamma_max < 1 excludes.
SessaReach sessa_reach(const SessaNorms& norms, double radius);

/// What one sequence did, and what no sequence of that size can exceed.
struct BlockReach {
  std::vector<double> entering, leaving;  ///< [T] |x_t| and |y_t|
  std::vector<double> radii, bounds;      ///< ascending R, and the bound of |y_t| for it; the last R is max |x_t|
};

}  // namespace afterglow
