// One head of Spectral Koopman Attention with its statistics held fixed, and the operators that follow from them.
#pragma once
#include <span>
#include <vector>

namespace afterglow {

/// The factorisation of G + eps I adds this to the diagonal each time it fails; the layer counts the failures.
inline constexpr double ska_jitter_step = 1e-4;

/// The statistics as the layer's captures hold them, of one batch entry, head and group; all matrices row-major.
struct SkaHead {
  int rank = 0;               ///< r
  int value_width = 0;        ///< P; 0 where an analysis needs no values
  std::span<const double> G;  ///< [r*r], of normalised keys, without ridge
  std::span<const double> M;  ///< [r*r]
  std::span<const double> C;  ///< [P*r]
  double ridge = 1e-3;        ///< eps, and whatever the factorisation had to add
  double gamma = 1.0, eta = 1.0;
  int power = 2;       ///< K
  double sigma = 0.0;  ///< the layer's estimate, by which it normalises; 0: the exact largest singular value
};

/// What Echo F computes on the way, in float64. All empty when an input has the wrong size or is not finite, r < 1,
/// K < 0, or G + eps I is not positive definite.
struct SkaOperators {
  std::vector<double> L;          ///< [r*r], G + eps I = L L^T
  std::vector<double> A_w;        ///< [r*r] = L^-1 M L^-T (prop. A.3)
  std::vector<double> A;          ///< [r*r] = gamma / max(sigma, 1) A_w
  std::vector<double> readout;    ///< F [P*r] = C L^-T: y = eta F A^K (L^-1 q)
  std::vector<double> value_map;  ///< B_v [P*r] = C (G + eps I)^-1 (prop. I.7)
  double sigma = 0.0;             ///< exact largest singular value of A_w
  double scale = 1.0;             ///< A = scale A_w
  bool empty() const { return L.empty(); }
};
SkaOperators ska_operators(const SkaHead& head);

/// How a query is answered (Echo eqs. 5 to 7).
struct SkaReading {
  std::vector<double> filter;  ///< A^K [r*r]
  std::vector<double> y;       ///< [P] = eta F A^K (L^-1 q)
};
/// `operators` are those of `head`, not empty; `query` is [r] and normalised as the keys are.
SkaReading ska_reading(const SkaHead& head, const SkaOperators& operators, std::span<const double> query);

}  // namespace afterglow
