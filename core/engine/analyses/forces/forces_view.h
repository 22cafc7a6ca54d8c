// Where one training step moves the eigenvalues of each Koopman operator, and where the loss alone would: plain values
// with the step of the weights.
#pragma once
#include <complex>
#include <cstdint>
#include <limits>
#include <vector>

namespace afterglow {

/// Moves in the complex plane, to first order: delta lambda = u^H dA v / (u^H v).
struct ModeForce {
  std::complex<double> value;  ///< eigenvalue of A_w of the inspected sequence
  double condition = 1;        ///< 1 / |u^H v| for unit eigenvectors u, v
  int number = 0;              ///< as in HeadSpectrum
  bool is_defective = false;   ///< the condition number is so large that the moves below are meaningless
  std::complex<double>
      by_loss;  ///< along the negative gradient of the next batch's loss, with the length of the optimiser's step
  std::complex<double> by_optimiser;  ///< by AdamW's step, with moments, clipping, rate and decay
  bool step_is_small = false;         ///< small enough for first order (`first_order_holds`)
  /// Eigenvalue after that step, made on a copy; NaN if none matches this one.
  std::complex<double> after{std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
};

struct HeadForces {
  int layer = 0, head = 0;                       ///< index into ModelSummary::layers
  double norm = 0;                               ///< Frobenius norm of A_w
  double change = 0;                             ///< of its change by the step, to first order
  std::vector<ModeForce> modes{};                ///< modulus descending
  std::vector<std::complex<double>> operated{};  ///< targets of the run's last surgery
};

struct ForcesView {
  std::int64_t step = 0;     ///< of the weights; the forces act in the next step
  double loss = 0;           ///< of the next batch
  double gradient_norm = 0;  ///< before clipping
  double weight_change = 0;  ///< norm of the optimiser's step over all weights
  bool is_left_out = false;  ///< a command leaves the next batch out: nothing moves
  std::vector<HeadForces> heads{};
};

}  // namespace afterglow
