// Where one training step moves the eigenvalues of each Koopman operator, and which way the loss alone would: plain
// values, stamped with the step of the weights.
#pragma once
#include <complex>
#include <cstdint>
#include <limits>
#include <vector>

namespace afterglow {

/// Moves in the complex plane, to first order: delta lambda = u^H dA v / (u^H v).
struct ModeForce {
  std::complex<double> value;         ///< eigenvalue of A_w of the probe sequence
  double condition = 1;               ///< 1 / |u^H v| for unit eigenvectors u, v
  int number = 0;                     ///< as in HeadSpectrum
  bool is_defective = false;          ///< the condition is so large that the moves below mean nothing
  std::complex<double> by_loss;       ///< down the gradient of the next batch's loss, as far in the weights as the step
  std::complex<double> by_optimiser;  ///< by AdamW's step, with moments, clipping, rate and decay
  bool step_is_small = false;         ///< small enough for the first order (`first_order_holds`)
  /// Eigenvalue after that step, which is taken in a copy; NaN where none belongs to this one.
  std::complex<double> after{std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
};

struct HeadForces {
  int layer = 0, head = 0;                       ///< index into ModelSummary::layers
  double norm = 0;                               ///< Frobenius norm of A_w
  double change = 0;                             ///< of what the step changes of it, to first order
  std::vector<ModeForce> modes{};                ///< modulus descending
  std::vector<std::complex<double>> operated{};  ///< where the last surgery of the run put some of them
};

struct ForcesView {
  std::int64_t step = 0;     ///< of the weights; the forces act in the step after it
  double loss = 0;           ///< of the next batch
  double gradient_norm = 0;  ///< of it, before clipping
  double weight_change = 0;  ///< length of the optimiser's step in the weights, all taken together
  bool is_left_out = false;  ///< a command leaves the next batch out: nothing moves
  std::vector<HeadForces> heads{};
};

}  // namespace afterglow
