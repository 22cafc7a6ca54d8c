// Surgery on a Koopman operator: the nearest key projection, to first order in each round, whose operator has given
// eigenvalues on one sequence.
#pragma once
#include <complex>
#include <cstdint>
#include <span>
#include <vector>

namespace afterglow {

/// How the operator of one head follows from its key projection W [r*d]: keys z_t = W x_t, G = sum z z^T / m^2 and
/// M = sum z_{t+1} z_t^T / m^2 over the counted tokens, A_w = L^-1 M L^-T with L L^T = G + ridge I.
struct KeyOperator {
  int rank = 0, width = 0;                ///< r, d
  std::vector<double> inputs;             ///< [T*d]: x_t, what the layer reads
  std::vector<std::uint8_t> is_counted;   ///< [T]: keys that G and M hold
  std::vector<std::uint8_t> is_measured;  ///< [T]: keys whose largest norm is m
  double ridge = 1e-3;
};

/// A_w [r*r] for this projection; empty where G + ridge I cannot be factorised.
std::vector<double> operator_of_keys(const KeyOperator& keys, std::span<const double> projection);

struct SpectrumFit {
  std::vector<double> projection;  ///< [r*d]
  double distance = 0;             ///< the largest |eigenvalue - target| that is left
  int rounds = 0;
};
/// Moves the eigenvalues, taken in the order of `comes_before`, to `target`: Newton steps of least norm on the way
/// there, each so short that no eigenvalue moves by more than 0.03. Ends where they are reached within 1e-10 or nothing
/// is gained any more. A conjugate pair stays a pair, a real eigenvalue stays real.
SpectrumFit fit_spectrum(const KeyOperator& keys, std::span<const double> projection,
                         std::span<const std::complex<double>> target);

}  // namespace afterglow
